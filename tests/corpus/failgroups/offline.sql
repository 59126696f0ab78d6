-- Failure groups in which every disk is offline
set feedback off heading off pagesize 0
select g.name || ': failure group ' || d.failgroup || ' is offline'
from v$asm_diskgroup g, v$asm_disk d
where g.group_number = d.group_number
group by g.name, d.failgroup
having count(*) = count(case when d.mode_status = 'OFFLINE' then 1 end);
