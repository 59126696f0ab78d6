-- Changes an attribute, shows it, and puts it back
SET FEEDBACK ON PAGESIZE 20 LINESIZE 60 VERIFY OFF
COLUMN value FORMAT a10
ALTER DISKGROUP lab SET ATTRIBUTE 'disk_repair_time' = '6h';
SELECT value FROM v$asm_attribute
 WHERE name = 'disk_repair_time'
   AND group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'LAB');
ALTER DISKGROUP lab SET ATTRIBUTE 'disk_repair_time' = '12h';
SELECT value FROM v$asm_attribute
 WHERE name = 'disk_repair_time'
   AND group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'LAB');
