-- Disks by group and mode, turned by PIVOT-like sums and a sub-query
SET LINES 80 PAGES 20 FEED OFF
COL dg FOR a8
COL online FOR 999
COL offline FOR 999
COL syncing FOR 999
SELECT dg,
       NVL(MAX(CASE mode_status WHEN 'ONLINE'  THEN n END), 0) online,
       NVL(MAX(CASE mode_status WHEN 'OFFLINE' THEN n END), 0) offline,
       NVL(MAX(CASE mode_status WHEN 'SYNCING' THEN n END), 0) syncing
  FROM (SELECT g.name dg, d.mode_status, COUNT(*) n
          FROM v$asm_disk_stat d JOIN v$asm_diskgroup_stat g ON d.group_number = g.group_number
         GROUP BY g.name, d.mode_status)
 GROUP BY dg
 ORDER BY dg;
