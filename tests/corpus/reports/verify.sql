-- VERIFY ON shows the lines before and after, and the dot ends a variable's name
SET PAGESIZE 0 FEEDBACK OFF VERIFY ON HEADING OFF
DEFINE g = DAT
SELECT name FROM v$asm_diskgroup WHERE name = '&g.A';
SET VERIFY OFF
SELECT type FROM v$asm_diskgroup WHERE name = '&g.A';
