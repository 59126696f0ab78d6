-- Disks that vote in each group: more than half of them must be there to mount it
set lines 60 pages 20 feed off
column name format a8
column votes format 99
select g.name, count(case d.voting_file when 'Y' then 1 end) votes
from v$asm_diskgroup g, v$asm_disk d
where d.group_number = g.group_number
and g.name = 'DATA'
group by g.name;
