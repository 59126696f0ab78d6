-- Health check: every group that should be mounted is; the list is in the script
SET FEEDBACK OFF HEADING OFF PAGESIZE 0 VERIFY OFF
DEFINE wanted = "'ARCH','DATA','FRA','LAB'"
COLUMN m NEW_VALUE missing NOPRINT
COLUMN said FORMAT a40
SELECT 4 - COUNT(*) m, COUNT(*) || ' of 4 groups are mounted' said
  FROM v$asm_diskgroup
 WHERE state = 'MOUNTED'
   AND name IN (&wanted);
EXIT &missing
