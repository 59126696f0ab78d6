-- CSV by concatenation, as before MARKUP CSV: header line by PROMPT
SET ECHO OFF FEEDBACK OFF HEADING OFF PAGESIZE 0 LINESIZE 300 TRIMSPOOL ON COLSEP ','
PROMPT group,disk,failgroup,mode
SELECT g.name, d.name, d.failgroup, d.mode_status
  FROM v$asm_diskgroup g, v$asm_disk d
 WHERE g.group_number = d.group_number AND g.name = 'FRA'
 ORDER BY d.disk_number;
