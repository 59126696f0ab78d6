-- Disk groups whose disks are of different sizes
set feedback on pagesize 20
select g.name, min(d.os_mb) smallest, max(d.os_mb) largest
  from v$asm_disk d, v$asm_diskgroup g
 where d.group_number = g.group_number
 group by g.name
having min(d.os_mb) <> max(d.os_mb);
