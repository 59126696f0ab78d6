-- Allocation units of each disk, counted in x$kfdat and computed from v$asm_disk
set pages 40 lines 80 feed off
col disk for a12
col same for a4
with counted as (
  select group_kfdat grp, number_kfdat dsk, count(*) aus
    from x$kfdat
   group by group_kfdat, number_kfdat
)
select d.name disk, case when c.aus * g.allocation_unit_size / 1048576 >= d.total_mb then 'yes' else 'no' end same
  from counted c
  join v$asm_disk_stat d on d.group_number = c.grp and d.disk_number = c.dsk
  join v$asm_diskgroup_stat g on g.group_number = c.grp
 where g.name = 'ARCH'
 order by d.name;
