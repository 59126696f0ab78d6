-- The largest failure group of each group, by a correlated sub-query
SET PAGESIZE 20 LINESIZE 80 FEEDBACK OFF
COL dg FOR a8
COL fg FOR a12
COL mb FOR 99999
SELECT g.name dg, MIN(x.failgroup) fg, MAX(x.mb) mb
  FROM v$asm_diskgroup g,
       (SELECT group_number, failgroup, SUM(os_mb) mb FROM v$asm_disk GROUP BY group_number, failgroup) x
 WHERE x.group_number = g.group_number
   AND x.mb = (SELECT MAX(SUM(d.os_mb)) FROM v$asm_disk d
                WHERE d.group_number = g.group_number GROUP BY d.failgroup)
   AND g.type != 'EXTERN'
 GROUP BY g.name
 ORDER BY g.name;
