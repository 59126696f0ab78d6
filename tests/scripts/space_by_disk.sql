-- asm_disks.sql
SET LINES 200 PAGES 100
COL disk_group_name FORMAT a15
BREAK ON report ON disk_group_name SKIP 1
COMPUTE sum LABEL "Grand total: " OF total_mb used_mb ON report

SELECT NVL(a.name, '[CANDIDATE]')                                  disk_group_name
     , b.path                                                      disk_file_path
     , b.name                                                      disk_file_name
     , b.failgroup                                                 disk_file_fail_group
     , b.total_mb                                                  total_mb
     , (b.total_mb - b.free_mb)                                    used_mb
     , DECODE(b.total_mb, 0, 0, ROUND((1 - (b.free_mb / b.total_mb)) * 100, 2)) pct_used
FROM v$asm_diskgroup a RIGHT OUTER JOIN v$asm_disk b ON a.group_number = b.group_number
ORDER BY a.name, b.name;
