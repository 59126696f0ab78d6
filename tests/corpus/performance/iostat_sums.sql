-- The rows of v$asm_disk_iostat add up to those of v$asm_disk_stat, disk by disk
set pages 40 lines 80 feed off
col disk for a12
col sums for a5
select d.name disk,
       case when abs(i.r - d.reads) <= 0.5 * d.reads + 50 and abs(i.w - d.writes) <= 0.5 * d.writes + 50
            then 'yes' else 'no' end sums
  from v$asm_disk_stat d,
       (select group_number, disk_number, sum(reads) r, sum(writes) w
          from v$asm_disk_iostat
         group by group_number, disk_number) i
 where i.group_number = d.group_number
   and i.disk_number = d.disk_number
   and d.group_number = (select group_number from v$asm_diskgroup where name = 'FRA')
 order by 1;
