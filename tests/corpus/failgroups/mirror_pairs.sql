-- Pairs of failure groups that hold mirrors of the same extents of user files
SET PAGESIZE 20 LINESIZE 60 FEEDBACK OFF
COL pair FOR a20
SELECT LEAST(a.failgroup, b.failgroup) || '/' || GREATEST(a.failgroup, b.failgroup) pair
  FROM x$kffxp p
  JOIN x$kffxp m ON m.group_kffxp = p.group_kffxp AND m.number_kffxp = p.number_kffxp
                AND m.xnum_kffxp = p.xnum_kffxp AND m.lxn_kffxp > p.lxn_kffxp
  JOIN v$asm_disk_stat a ON a.group_number = p.group_kffxp AND a.disk_number = p.disk_kffxp
  JOIN v$asm_disk_stat b ON b.group_number = m.group_kffxp AND b.disk_number = m.disk_kffxp
 WHERE p.group_kffxp = (SELECT group_number FROM v$asm_diskgroup_stat WHERE name = 'ARCH')
   AND p.number_kffxp >= 256
 GROUP BY LEAST(a.failgroup, b.failgroup) || '/' || GREATEST(a.failgroup, b.failgroup)
 ORDER BY pair;
