-- Distance of each disk's reads from the disk before it, as a sign that they are spread
-- mask: READS, DIFFERENCE
SET LINES 80 PAGES 30 FEED OFF
COL name FOR a12
COL reads FOR 99999990
COL difference FOR 99999990
SELECT name, reads, reads - LAG(reads, 1, reads) OVER (ORDER BY name) difference
  FROM v$asm_disk_stat
 WHERE name LIKE 'FRA\_%' ESCAPE '\'
 ORDER BY name;
