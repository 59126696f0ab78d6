-- Share of each failure group in the bytes written to its group
-- mask: SHARE
SET LINESIZE 60 PAGESIZE 30 FEEDBACK OFF
COLUMN fg    FORMAT a10
COLUMN share FORMAT a8 JUSTIFY RIGHT
SELECT failgroup fg,
       TO_CHAR(100 * RATIO_TO_REPORT(SUM(bytes_written)) OVER (), 'FM990.0') || ' %' share
  FROM v$asm_disk_stat
 WHERE group_number = (SELECT group_number FROM v$asm_diskgroup_stat WHERE name = 'DATA')
 GROUP BY failgroup
 ORDER BY failgroup;
