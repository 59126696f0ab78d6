-- Megabytes of disks by group and by the kind of redundancy, in one pass
set pages 50 lines 70 feed off
col g for a10
col t for a10
col mb for 99999
select g.name g, g.type t, sum(d.os_mb) mb
from   v$asm_diskgroup g
       inner join v$asm_disk_stat d
       on (g.group_number = d.group_number)
where  d.mode_status = 'ONLINE'
group  by grouping sets ((g.name), (g.type), ())
order  by grouping_id(g.name, g.type), 1, 2;
