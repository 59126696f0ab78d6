-- Dismounts a group, looks at its state, and mounts it again
SET FEEDBACK ON LINESIZE 60 PAGESIZE 20
COL state FOR a12
ALTER DISKGROUP lab DISMOUNT;
SELECT state FROM v$asm_diskgroup WHERE name = 'LAB';
ALTER DISKGROUP lab MOUNT;
SELECT state FROM v$asm_diskgroup WHERE name = 'LAB';
