-- Disks and megabytes by group and failure group, with subtotals and the grand total
set pagesize 100 linesize 80 feedback off
column grp  format a12 heading 'Group'
column fgrp format a12 heading 'Fail group'
column n    format 990 heading 'Disks'
column mb   format 999,990 heading 'OS MB'
select decode(grouping(g.name), 1, 'ALL GROUPS', g.name) grp,
       case when grouping(g.name) = 1 then null
            when grouping(d.failgroup) = 1 then '* all *'
            else d.failgroup end fgrp,
       count(d.disk_number) n,
       sum(d.os_mb) mb
  from v$asm_diskgroup g join v$asm_disk d on d.group_number = g.group_number
 group by rollup (g.name, d.failgroup)
 order by grouping(g.name), g.name, grouping(d.failgroup), d.failgroup;
