-- Disks that discovery shows and the statistics view does not: those of no group, and one that is offline
SET FEEDBACK OFF PAGES 0 LINES 80
SELECT regexp_replace(path, '^.*/', '') FROM v$asm_disk WHERE path IS NOT NULL
MINUS
SELECT regexp_replace(path, '^.*/', '') FROM v$asm_disk_stat
ORDER BY 1;
