-- Capacity report with a title, page headings, sums by group and over all groups
SET LINESIZE 72 PAGESIZE 50 FEEDBACK OFF NEWPAGE 0
TTITLE LEFT 'Capacity' RIGHT 'storage team' SKIP 1
COLUMN dg    HEADING 'Disk|group' FORMAT a10
COLUMN fg    HEADING 'Failure|group' FORMAT a12
COLUMN disk  HEADING 'Disk' FORMAT a12
COLUMN os_mb HEADING 'MiB' FORMAT 99,990
BREAK ON dg SKIP 1 ON fg ON REPORT
COMPUTE SUM OF os_mb ON dg
COMPUTE SUM OF os_mb ON REPORT
SELECT g.name dg, d.failgroup fg, d.name disk, d.os_mb
  FROM v$asm_diskgroup g
     , v$asm_disk d
 WHERE d.group_number = g.group_number
   AND g.name IN ('ARCH', 'FRA')
 ORDER BY g.name, d.failgroup, d.name;
TTITLE OFF
CLEAR BREAKS
CLEAR COMPUTES
