-- Parameters that a module compares: names and values, by SHOW and by the view
SET PAGESIZE 20 LINESIZE 100 FEEDBACK OFF
COLUMN name  FORMAT a36
COLUMN value FORMAT a20
SELECT name, value FROM v$parameter
 WHERE name IN ('instance_type', 'asm_power_limit', 'asm_preferred_read_failure_groups')
 ORDER BY name;
