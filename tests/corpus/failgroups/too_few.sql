-- Groups that have no failure group to spare: after a loss redundancy cannot be restored
set pages 20 lines 80 feed off
col name for a8
col has for 99
col needs for 99
select name, has, needs
  from (select g.name, count(distinct d.failgroup) has, decode(g.type, 'HIGH', 3, 2) needs
          from v$asm_diskgroup g join v$asm_disk d on d.group_number = g.group_number
         where g.type in ('NORMAL', 'HIGH')
         group by g.name, g.type)
 where has <= needs
 order by name;
