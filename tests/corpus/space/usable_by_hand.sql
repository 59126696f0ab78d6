-- USABLE_FILE_MB computed from its parts, and whether the view agrees, where disks are equally full
SET PAGESIZE 30 LINESIZE 80 FEEDBACK OFF
COLUMN name  FORMAT a10
COLUMN agree FORMAT a5
SELECT name,
       CASE WHEN TRUNC((free_mb - required_mirror_free_mb)
                 / CASE type WHEN 'HIGH' THEN 3 WHEN 'NORMAL' THEN 2 ELSE 1 END) = usable_file_mb
            THEN 'yes' ELSE 'no' END agree
  FROM v$asm_diskgroup
 WHERE offline_disks = 0
   AND name IN ('ARCH', 'DATA', 'FRA')
 ORDER BY name;
