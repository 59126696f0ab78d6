-- Disks ranked by size within all groups: RANK, DENSE_RANK and ROW_NUMBER side by side
SET PAGESIZE 40 LINESIZE 80 FEEDBACK OFF
COL name FOR a12
COL os_mb FOR 9999
COL r FOR 99
COL dr FOR 99
COL rn FOR 99
SELECT name, os_mb,
       RANK() OVER (ORDER BY os_mb DESC) r,
       DENSE_RANK() OVER (ORDER BY os_mb DESC) dr,
       ROW_NUMBER() OVER (ORDER BY os_mb DESC, name) rn
  FROM v$asm_disk
 WHERE name IS NOT NULL
 ORDER BY rn;
