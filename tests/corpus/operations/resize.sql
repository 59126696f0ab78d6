-- Shrinks a disk of the lab and gives it its whole device again
set feedback on lines 80 pages 20
alter diskgroup lab resize disk lab_1 size 100M rebalance power 8 wait;
select total_mb from v$asm_disk_stat where name = 'LAB_1';
alter diskgroup lab resize all rebalance wait;
select case total_mb when max_mb then 'as the others' else 'smaller' end size_now
  from (select name, total_mb, max(total_mb) over () max_mb from v$asm_disk_stat where name like 'LAB%')
 where name = 'LAB_1';
