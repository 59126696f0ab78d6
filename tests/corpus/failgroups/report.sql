-- A report of failure groups with titles above and below each page
SET LINESIZE 60 PAGESIZE 30 FEEDBACK OFF
TTITLE CENTER 'Failure groups of LAB' SKIP 2
BTITLE LEFT 'end of report'
COLUMN failgroup HEADING 'Failure group' FORMAT a14
COLUMN name      HEADING 'Disk'          FORMAT a10
COLUMN os_mb     HEADING 'MB'            FORMAT 9990
BREAK ON failgroup
SELECT d.failgroup, d.name, d.os_mb
  FROM v$asm_disk d, v$asm_diskgroup g
 WHERE d.group_number = g.group_number AND g.name = 'LAB'
 ORDER BY d.failgroup, d.name;
TTITLE OFF
BTITLE OFF
CLEAR BREAKS
