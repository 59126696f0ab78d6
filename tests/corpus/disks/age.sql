-- Disks by the day on which they joined; all of a new installation joined today
set lines 80 pages 30 feed off
col name for a10
col joined for a8
select g.name, count(*) disks,
       case when trunc(min(d.create_date)) >= trunc(sysdate) - 1 then 'new' else 'older' end joined
  from v$asm_disk d, v$asm_diskgroup g
 where d.group_number = g.group_number
 group by g.name
 order by g.name;
