-- The two disks with the most bytes written in each group: ROW_NUMBER in an inline view
-- mask: NAME, MB
set lines 60 pages 40 feed off
break on grp
column grp format a8
column name format a12
column mb format 999,990.9
select grp, place, name, mb
from (select g.name grp, d.name, d.bytes_written/1024/1024 mb,
             row_number() over (partition by g.name order by d.bytes_written desc) place
      from v$asm_diskgroup_stat g, v$asm_disk_stat d
      where g.group_number = d.group_number
      and g.name in ('DATA', 'LAB'))
where place <= 2
order by grp, place;
clear breaks
