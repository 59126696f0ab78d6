-- How much work a drop would be, without doing it: EXPLAIN WORK and v$asm_estimate
-- mask: /NOTICE: (\d+) AUs? would move, (\d+) MiB at most; the least possible is (\d+) AUs?/
SET FEEDBACK OFF TERMOUT OFF
EXPLAIN WORK SET STATEMENT_ID = 'corpus drop' FOR ALTER DISKGROUP lab DROP DISK lab_4;
SET TERMOUT ON PAGESIZE 20 LINESIZE 80
COLUMN statement_id FORMAT a14
COLUMN has_work     FORMAT a8
SELECT statement_id, CASE WHEN est_work > 0 THEN 'yes' ELSE 'no' END has_work
  FROM v$asm_estimate
 WHERE statement_id = 'corpus drop';
