-- Starts a rebalance, waits for it, and shows that nothing is left of it
SET FEEDBACK ON PAGESIZE 20 LINESIZE 80
ALTER DISKGROUP lab REBALANCE POWER 11 WAIT;
SET FEEDBACK OFF
SELECT COUNT(*) still_running
  FROM v$asm_operation
 WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'LAB')
   AND state IN ('RUN', 'WAIT');
