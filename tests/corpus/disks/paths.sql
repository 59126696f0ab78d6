-- Paths of the disks of one group, by name; the group is asked for
-- usage: echo fra | sqlplus -S / as sysasm @paths
SET VERIFY OFF FEEDBACK OFF LINESIZE 200 PAGESIZE 20
ACCEPT dg CHAR PROMPT 'Disk group: '
COLUMN name FORMAT a12
COLUMN path FORMAT a120
SELECT name, path
  FROM v$asm_disk
 WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = UPPER('&&dg'))
 ORDER BY name;
