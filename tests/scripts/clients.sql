select g.name, c.instance_name, c.db_name, c.status, c.software_version
  from v$asm_client c, v$asm_diskgroup g where c.group_number = g.group_number order by 1, 2;
