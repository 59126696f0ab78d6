-- Templates of DATA whose striping or redundancy is not the usual one
set pages 30 lines 80 feed off
col name for a20
col redundancy for a10
col stripe for a6
col system for a6
select t.name, t.redundancy, t.stripe, t.system
  from v$asm_template t, v$asm_diskgroup g
 where t.group_number = g.group_number
   and g.name = 'DATA'
   and (t.stripe = 'FINE' or t.redundancy <> 'MIRROR' or t.system = 'N')
 order by t.system, t.name;
