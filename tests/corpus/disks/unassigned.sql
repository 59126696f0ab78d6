-- Disks that belong to no group, with the reason, by outer join in the old way
set lines 100 pages 50 feed on
col file_name for a10
col header_status for a13
col group_name for a12
col os_mb for 99999
select substr(d.path, instr(d.path, '/', -1) + 1) file_name, d.header_status, d.os_mb,
       nvl(g.name, '(none)') group_name
  from v$asm_disk d, v$asm_diskgroup g
 where d.group_number = g.group_number (+)
   and g.name is null
 order by 1;
