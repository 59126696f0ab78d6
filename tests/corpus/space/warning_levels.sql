-- One word for each group, by the percentage used, with limits from DEFINE
SET FEEDBACK OFF VERIFY OFF PAGESIZE 24 LINESIZE 60
DEFINE warn = 80
DEFINE crit = 90
COLUMN name  FORMAT a8
COLUMN level FORMAT a10 HEADING 'Level'
SELECT name,
       CASE
         WHEN 100 * (total_mb - free_mb) / NULLIF(total_mb, 0) >= &crit THEN 'CRITICAL'
         WHEN 100 * (total_mb - free_mb) / NULLIF(total_mb, 0) >= &warn THEN 'WARNING'
         ELSE 'ok'
       END "level"
  FROM v$asm_diskgroup
 ORDER BY 1;
