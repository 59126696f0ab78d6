-- how far a rebalance is
SET HEADING ON FEEDBACK OFF
select inst_id, o.operation, o.state, o.power, o.sofar, o.est_work,
       case when o.est_work > 0 then to_char(100 * o.sofar / o.est_work, 'FM990.0') || ' %' else 'n/a' end pct,
       initcap(pass) pass
  from gv$asm_operation o, v$asm_diskgroup g
 where o.group_number = g.group_number and g.name = 'DATA'
 order by pass;
