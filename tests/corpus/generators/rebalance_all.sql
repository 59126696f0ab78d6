-- One REBALANCE for each mounted group, the power by its number of disks
set head off feed off pages 0 lines 80
select 'alter diskgroup '||lower(g.name)||' rebalance power '||least(greatest(count(*), 2), 5)||';'
from v$asm_diskgroup g, v$asm_disk d
where g.group_number=d.group_number
and g.state='MOUNTED'
group by g.name
order by g.name;
