-- Files of the last hours: dates compared with SYSDATE and with intervals
set pages 30 lines 60 feed off
col name for a6
col recent for 990
select g.name,
       sum(case when f.creation_date > sysdate - 1 then 1 else 0 end) recent,
       sum(case when f.modification_date >= systimestamp - interval '1' day then 1 else 0 end) changed
  from v$asm_file f, v$asm_diskgroup g
 where f.group_number = g.group_number
   and g.name in ('FRA', 'ARCH')
 group by g.name
 order by g.name;
