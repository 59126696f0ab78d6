select dg.name as diskgroup, substr(a.name, 1, 24) as name, substr(a.value, 1, 24) as value, read_only
  from v$asm_diskgroup dg, v$asm_attribute a
 where dg.name = 'DATA' and dg.group_number = a.group_number and a.name like 'disk_%' and upper(a.read_only) = 'N'
 order by a.name;
