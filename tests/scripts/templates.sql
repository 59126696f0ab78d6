select g.name diskgroup, t.entry_number, t.name, t.redundancy, t.stripe, t.system
  from v$asm_template t, v$asm_diskgroup g
 where t.group_number = g.group_number and g.name = 'DATA'
 order by t.name;
