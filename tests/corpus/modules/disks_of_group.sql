-- The disks of a group for a comparison with the wanted list: failgroup, path, name, with a separator
-- usage: sqlplus -S / as sysasm @disks_of_group data
SET HEADING OFF FEEDBACK OFF VERIFY OFF PAGESIZE 0 LINESIZE 250 COLSEP '|' TRIMOUT ON
COLUMN failgroup FORMAT a8
COLUMN path      FORMAT a120
COLUMN name      FORMAT a10
SELECT d.failgroup, d.name, d.path
  FROM v$asm_disk d
 WHERE d.group_number = (SELECT g.group_number FROM v$asm_diskgroup g WHERE g.name = UPPER('&1'))
 ORDER BY d.failgroup, d.name
/
EXIT
