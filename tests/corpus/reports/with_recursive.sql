-- WITH in three steps, one using the other, and a scalar sub-query in the list of columns
SET PAGESIZE 20 LINESIZE 80 FEEDBACK OFF
COLUMN name FORMAT a8
WITH sizes AS (
  SELECT group_number, SUM(os_mb) mb FROM v$asm_disk GROUP BY group_number
),
named AS (
  SELECT g.name, s.mb, (SELECT COUNT(*) FROM v$asm_disk d WHERE d.group_number = g.group_number) disks
    FROM v$asm_diskgroup g JOIN sizes s ON s.group_number = g.group_number
),
average AS (SELECT AVG(mb) mean FROM named)
SELECT n.name, n.mb, n.disks, CASE WHEN n.mb > a.mean THEN 'above' ELSE 'below' END place
  FROM named n CROSS JOIN average a
 ORDER BY n.mb DESC, n.name
 FETCH FIRST 3 ROWS ONLY;
