-- The first and the last disk of each group by number, with KEEP
set pages 20 lines 80 feed off
col name for a8
col first_disk for a12
col last_disk for a12
select g.name,
       min(d.name) keep (dense_rank first order by d.disk_number) first_disk,
       max(d.name) keep (dense_rank last  order by d.disk_number) last_disk
  from v$asm_disk d, v$asm_diskgroup g
 where d.group_number = g.group_number
 group by g.name
 order by g.name;
