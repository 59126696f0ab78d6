-- One value per line for a monitoring agent: name and number, separated by a blank
-- usage: sqlplus -S -L / as sysasm @one_value
-- mask: /_free_mb (\d+)/
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 200 TRIMOUT ON
SELECT LOWER(name) || '_total_mb ' || total_mb FROM v$asm_diskgroup_stat
UNION ALL
SELECT LOWER(name) || '_free_mb ' || free_mb FROM v$asm_diskgroup_stat
ORDER BY 1;
