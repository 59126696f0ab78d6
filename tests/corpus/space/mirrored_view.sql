-- Raw megabytes and megabytes after mirroring, side by side, from the type of the group
-- mask: RAW_FREE, NET_FREE
set lines 120 pages 100 feed off
col name      for a8
col type      for a6
col copies    for 9
col raw_total for 999,999
col net_total for 999,999
col raw_free  for 999,999
col net_free  for 999,999

select name, type,
       decode(type, 'EXTERN', 1, 'NORMAL', 2, 'HIGH', 3) copies,
       total_mb raw_total,
       trunc(total_mb / decode(type, 'EXTERN', 1, 'NORMAL', 2, 'HIGH', 3)) net_total,
       free_mb raw_free,
       trunc(free_mb / decode(type, 'EXTERN', 1, 'NORMAL', 2, 'HIGH', 3)) net_free
  from v$asm_diskgroup_stat
 order by decode(type, 'EXTERN', 1, 'NORMAL', 2, 'HIGH', 3), name;
