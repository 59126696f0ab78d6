-- Share of reads per disk that took longer than a second: must be none
set lines 80 pages 30 feed off
col name for a12
col slow for 9990
select d.name, nvl(sum(case when h.wait_time_micro > 1048576 then h.wait_count end), 0) slow
  from v$asm_disk_histogram h, v$asm_disk_stat d
 where h.group_number = d.group_number
   and h.disk_number = d.disk_number
   and h.io_class = 'READ'
   and d.group_number = (select group_number from v$asm_diskgroup where name = 'ARCH')
 group by d.name
 order by d.name;
