-- A disk goes offline for a moment and comes back: its resync ends in ONLINE
SET FEEDBACK ON LINESIZE 80 PAGESIZE 20
COLUMN name FORMAT a10
COLUMN mode_status FORMAT a11
ALTER DISKGROUP lab OFFLINE DISK lab_2 DROP AFTER 2 H;
SELECT name, mode_status, CASE WHEN repair_timer BETWEEN 7000 AND 7200 THEN 'two hours' END remaining
  FROM v$asm_disk_stat WHERE name LIKE 'LAB_%' AND mode_status <> 'ONLINE';
ALTER DISKGROUP lab ONLINE DISK lab_2 POWER 16 WAIT;
SELECT name, mode_status FROM v$asm_disk_stat WHERE name = 'LAB_2';
