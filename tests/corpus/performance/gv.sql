-- The same counters for all instances, of which there is one: gv$ has inst_id
set feedback off lines 60 pages 20
col disks for 990
select inst_id, count(*) disks, sum(case when reads >= 0 then 1 else 0 end) counted
from gv$asm_disk_stat
where mode_status = 'ONLINE'
group by inst_id;
