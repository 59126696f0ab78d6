-- The last statement, listed and changed as a DBA does at the prompt, and kept in a file
SET PAGESIZE 20 FEEDBACK OFF
SELECT name
  FROM v$asm_diskgroup
 WHERE name = 'FRA'
 ORDER BY name;
LIST
1
APPEND , type
CHANGE /name,/name AS grp,/
DEL 3
2
INPUT  WHERE name IN ('FRA', 'OLD')
LIST 1 *
/
SAVE buffer_kept REPLACE
SELECT 1 AS other FROM dual;
GET buffer_kept
DEL LAST
LIST
HOST rm buffer_kept.sql
