-- Failure groups that are preferred for reads: none is, so that all disks say U
SET PAGES 20 LINES 60 FEED OFF
COL preferred_read FOR a9 HEA 'PREFERRED'
SELECT preferred_read, COUNT(*) FROM v$asm_disk_stat GROUP BY preferred_read;
