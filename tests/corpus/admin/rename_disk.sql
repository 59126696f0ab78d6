-- Disks get other names and their old ones back
SET FEEDBACK ON LINESIZE 60 PAGESIZE 20
COL name FOR a16
ALTER DISKGROUP lab RENAME DISK lab_1 TO first_of_lab, lab_2 TO second_of_lab;
SELECT name FROM v$asm_disk_stat WHERE name LIKE '%OF_LAB' ORDER BY name;
ALTER DISKGROUP lab RENAME DISK first_of_lab TO lab_1, second_of_lab TO lab_2;
SELECT name FROM v$asm_disk_stat WHERE name IN ('LAB_1', 'LAB_2') ORDER BY name;
