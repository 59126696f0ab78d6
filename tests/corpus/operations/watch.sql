-- What runs now: rebalances, resyncs, scrubs with the minutes that are left
set lines 120 pages 30 feed on
col grp for a8
col pct for a6
select g.name grp, o.operation, o.pass, o.state, o.power, o.sofar, o.est_work,
       to_char(100 * o.sofar / nullif(o.est_work, 0), '990.9') pct, o.est_minutes
  from v$asm_operation o join v$asm_diskgroup g on o.group_number = g.group_number
 where o.state in ('RUN', 'WAIT')
 order by 1, 2;
