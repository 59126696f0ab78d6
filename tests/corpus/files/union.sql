-- Names that the groups have in common, by INTERSECT, and all of them, by UNION
SET FEEDBACK OFF PAGESIZE 20 LINESIZE 60
COL name FOR a20
SELECT 'common' what, COUNT(*) n FROM (
  SELECT name FROM v$asm_alias WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'DATA')
  INTERSECT
  SELECT name FROM v$asm_alias WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'FRA'))
UNION ALL
SELECT 'volumes', COUNT(*) FROM v$asm_volume WHERE size_mb > 0;
