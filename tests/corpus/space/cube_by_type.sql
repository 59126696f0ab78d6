-- Files by type and redundancy, in every combination of totals
SET PAGES 60 LINES 90 FEED OFF NULL '(all)'
COL type       FOR a18
COL redundancy FOR a10
COL files      FOR 9990
SELECT type, redundancy, COUNT(*) files
  FROM v$asm_file
 WHERE group_number IN (SELECT group_number FROM v$asm_diskgroup WHERE name IN ('FRA', 'ARCH'))
 GROUP BY CUBE (type, redundancy)
 ORDER BY type NULLS LAST, redundancy NULLS LAST
/
