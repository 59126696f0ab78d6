-- Spools generated statements into a file and runs that file: a directory for each failure group
-- usage: sqlplus -S / as sysasm @spool_and_run && cat made.tmp
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 120 TRIMSPOOL ON TERMOUT OFF
SPOOL made.tmp
SELECT DISTINCT 'ALTER DISKGROUP lab ADD DIRECTORY ''+LAB/fg_' || LOWER(d.failgroup) || ''';'
  FROM v$asm_disk d, v$asm_diskgroup g
 WHERE d.group_number = g.group_number AND g.name = 'LAB'
 ORDER BY 1;
SPOOL OFF
SET TERMOUT ON FEEDBACK ON
@made.tmp
SET FEEDBACK OFF
SELECT name FROM v$asm_alias WHERE name LIKE 'fg\_%' ESCAPE '\' ORDER BY name;
ALTER DISKGROUP lab DROP DIRECTORY '+LAB/fg_east', '+LAB/fg_west';
