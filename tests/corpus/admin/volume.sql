-- A volume from its making to its end, with every step looked at
SET FEEDBACK OFF LINESIZE 80 PAGESIZE 20
COL volume_name FOR a11
COL state FOR a8
COL usage FOR a6
COL mountpath FOR a12
ALTER DISKGROUP lab ADD VOLUME corpvol SIZE 8M;
ALTER DISKGROUP lab MODIFY VOLUME corpvol USAGE 'ext4' MOUNTPATH '/srv/corpus';
ALTER DISKGROUP lab DISABLE VOLUME corpvol;
SELECT volume_name, size_mb, state, usage, mountpath FROM v$asm_volume WHERE volume_name = 'CORPVOL';
ALTER DISKGROUP lab RESIZE VOLUME corpvol SIZE 16M;
ALTER DISKGROUP lab ENABLE VOLUME corpvol;
SELECT volume_name, size_mb, state, usage, mountpath FROM v$asm_volume WHERE volume_name = 'CORPVOL';
ALTER DISKGROUP lab DROP VOLUME corpvol;
SELECT COUNT(*) FROM v$asm_volume WHERE volume_name = 'CORPVOL';
