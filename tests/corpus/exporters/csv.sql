-- Disks as CSV with quotation marks only where they are needed
SET MARKUP CSV ON QUOTE OFF
SET FEEDBACK OFF
SELECT name, failgroup, os_mb, mode_status
  FROM v$asm_disk
 WHERE group_number IN (SELECT group_number FROM v$asm_diskgroup WHERE name IN ('DATA', 'OLD'))
 ORDER BY name;
