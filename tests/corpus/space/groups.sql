-- Space of all disk groups: size, used, free, percent, and what can still be written
-- mask: Free GB, Used GB, Used %, Usable GB
SET LINESIZE 132 PAGESIZE 60 FEEDBACK OFF VERIFY OFF TRIMSPOOL ON
COLUMN group_name   FORMAT a12           HEADING 'Group'
COLUMN type         FORMAT a8            HEADING 'Mirrors'
COLUMN state        FORMAT a11           HEADING 'State'
COLUMN total_gb     FORMAT 9,990.99      HEADING 'Total GB'
COLUMN free_gb      FORMAT 9,990.99      HEADING 'Free GB'
COLUMN used_gb      FORMAT 9,990.99      HEADING 'Used GB'
COLUMN pct_used     FORMAT 990.9         HEADING 'Used %'
COLUMN usable_gb    FORMAT 9,990.99      HEADING 'Usable GB'

SELECT name                                                   AS group_name
     , type
     , state
     , ROUND(total_mb / 1024, 2)                              AS total_gb
     , ROUND((total_mb - free_mb) / 1024, 2)                  AS used_gb
     , ROUND(free_mb / 1024, 2)                               AS free_gb
     , ROUND((1 - free_mb / total_mb) * 100, 1)               AS pct_used
     , ROUND(usable_file_mb / 1024, 2)                        AS usable_gb
  FROM v$asm_diskgroup
 ORDER BY name
/
