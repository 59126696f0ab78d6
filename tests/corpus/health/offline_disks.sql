-- Health check: exit code is the number of disks that are offline
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 VERIFY OFF
COLUMN n NEW_VALUE bad
SELECT 'offline disks:' label, COUNT(*) n FROM v$asm_disk WHERE mode_status = 'OFFLINE';
EXIT bad
