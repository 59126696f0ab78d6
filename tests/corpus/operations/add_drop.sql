-- Adds a disk that was in the group before, and drops it again, each as one rebalance
SET FEEDBACK ON LINESIZE 80 PAGESIZE 20 VERIFY OFF
COLUMN p NEW_VALUE path
SET TERMOUT OFF
SELECT path p FROM v$asm_disk WHERE header_status = 'FORMER' AND path LIKE '%/former';
SET TERMOUT ON
ALTER DISKGROUP lab ADD FAILGROUP east DISK '&path' NAME lab_5 REBALANCE POWER 8 WAIT;
SELECT COUNT(*) disks FROM v$asm_disk_stat WHERE name LIKE 'LAB%';
ALTER DISKGROUP lab
  DROP DISK lab_5
  REBALANCE POWER 8 WAIT;
SELECT COUNT(*) disks FROM v$asm_disk_stat WHERE name LIKE 'LAB%';
