-- Directories: added together, renamed, listed, dropped with what is below
SET FEEDBACK ON LINESIZE 80 PAGESIZE 30
COL name FOR a20
ALTER DISKGROUP lab ADD DIRECTORY '+LAB/corpus', '+LAB/corpus/one', '+LAB/corpus/two';
ALTER DISKGROUP lab RENAME DIRECTORY '+LAB/corpus/two' TO '+LAB/corpus/three';
SET FEEDBACK OFF
SELECT name, alias_directory FROM v$asm_alias
 WHERE parent_index = (SELECT reference_index FROM v$asm_alias WHERE name = 'corpus')
 ORDER BY name;
SET FEEDBACK ON
ALTER DISKGROUP lab DROP DIRECTORY '+LAB/corpus' FORCE;
