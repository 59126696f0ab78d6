-- Writes the statements that bring offline disks online, to be looked at before they are run
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 120 TRIMSPOOL ON
SELECT 'alter diskgroup ' || LOWER(g.name) || ' online disk ' || LOWER(d.name) || ' wait;'
  FROM v$asm_diskgroup g, v$asm_disk d
 WHERE g.group_number = d.group_number
   AND d.mode_status = 'OFFLINE'
 ORDER BY 1;
