-- How the extents of the largest file of ARCH lie on its disks
set pages 30 lines 60 feed off
col disk for a10
col mirrors for 990
select d.name disk, count(*) mirrors
  from x$kffxp x, v$asm_disk_stat d
 where x.group_kffxp = d.group_number
   and x.disk_kffxp = d.disk_number
   and (x.group_kffxp, x.number_kffxp) in
       (select f.group_number, f.file_number
          from (select f.group_number, f.file_number, rank() over (order by f.bytes desc) r
                  from v$asm_file f, v$asm_diskgroup g
                 where g.group_number = f.group_number and g.name = 'ARCH') f
         where f.r = 1)
 group by d.name
 order by d.name;
