-- The meaning of each header status, for the statuses that are there
SET PAGESIZE 20 LINESIZE 100 FEEDBACK OFF
COLUMN header_status FORMAT a13
COLUMN meaning       FORMAT a50
WITH words (status, meaning) AS (
  SELECT 'MEMBER', 'belongs to a group' FROM dual UNION ALL
  SELECT 'CANDIDATE', 'belongs to none and never did' FROM dual UNION ALL
  SELECT 'FORMER', 'was dropped and can be used again' FROM dual UNION ALL
  SELECT 'PROVISIONED', 'prepared for a group' FROM dual UNION ALL
  SELECT 'FOREIGN', 'has other data' FROM dual
)
SELECT DISTINCT d.header_status, w.meaning
  FROM v$asm_disk d JOIN words w ON w.status = d.header_status
 ORDER BY d.header_status;
