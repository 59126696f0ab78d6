-- Mean latency of reads and writes by disk, in milliseconds: whether each is below a second
SET LINES 80 PAGES 40 FEED OFF
COL disk FOR a12
COL reading FOR a8
COL writing FOR a8
SELECT d.name disk,
       CASE WHEN 1000 * d.read_time / DECODE(d.reads, 0, NULL, d.reads) < 1000 THEN 'fast' ELSE 'none' END reading,
       CASE WHEN 1000 * d.write_time / DECODE(d.writes, 0, NULL, d.writes) < 1000 THEN 'fast' ELSE 'none' END writing
  FROM v$asm_disk_stat d
 WHERE d.group_number = (SELECT group_number FROM v$asm_diskgroup_stat WHERE name = 'DATA')
 ORDER BY d.name;
