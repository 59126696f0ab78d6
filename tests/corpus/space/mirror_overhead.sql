-- How many bytes a file takes on the disks for one byte of its own, by redundancy
set pagesize 20 linesize 60 feedback off
col redundancy format a10
col copies     format 9.9
select redundancy,
       round(sum(space) / sum(ceil(bytes / 1048576) * 1048576)) copies
  from v$asm_file f, v$asm_diskgroup g
 where f.group_number = g.group_number
   and g.name in ('DATA', 'ARCH')
   and f.striped = 'COARSE'
   and f.bytes >= 2097152
 group by redundancy
 order by 2;
