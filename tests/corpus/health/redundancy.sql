-- Health check: files that lack mirrors because disks are offline, by group
set pages 20 lines 60 feed off
col name for a8
col lowered for a8
select g.name, max(f.redundancy_lowered) lowered
  from v$asm_diskgroup g join v$asm_file f on f.group_number = g.group_number
 where g.name in ('DATA', 'OLD')
 group by g.name
 order by g.name;
exit success
