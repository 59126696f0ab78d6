-- Buckets of v$event_histogram_micro are powers of two
SET FEEDBACK OFF PAGESIZE 0 HEADING OFF
SELECT CASE COUNT(*) WHEN 0 THEN 'all buckets are powers of two' ELSE COUNT(*) || ' are not' END
  FROM v$event_histogram_micro
 WHERE BITAND(wait_time_micro, wait_time_micro - 1) <> 0;
