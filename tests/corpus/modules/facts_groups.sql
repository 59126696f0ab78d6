-- Facts for a playbook: groups as name:type:au lines
-- usage: plinth sql -S @facts_groups
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 200
SELECT name || ':' || type || ':' || allocation_unit_size / 1024 / 1024 || ':' || sector_size
  FROM v$asm_diskgroup
 ORDER BY name;
