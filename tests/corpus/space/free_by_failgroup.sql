-- Size of each failure group, and the share that it has of its disk group
SET PAGESIZE 40 LINESIZE 100 FEEDBACK OFF
COLUMN dg      FORMAT a8
COLUMN fg      FORMAT a12
COLUMN disks   FORMAT 999
COLUMN fg_mb   FORMAT 99999
COLUMN share   FORMAT 990.99
BREAK ON dg SKIP 1

SELECT g.name dg, d.failgroup fg, COUNT(*) disks, SUM(d.total_mb) fg_mb,
       ROUND(100 * RATIO_TO_REPORT(SUM(d.total_mb)) OVER (PARTITION BY g.name), 2) share
  FROM v$asm_diskgroup g, v$asm_disk_stat d
 WHERE g.group_number = d.group_number
   AND g.type <> 'EXTERN'
 GROUP BY g.name, d.failgroup
 ORDER BY g.name, d.failgroup;
