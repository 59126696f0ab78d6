-- Metrics with labels, one a line
-- mask: /free_bytes\{.*\} (\d+)/
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 200 TAB OFF
SELECT 'asm_disk_online{group="' || g.name || '",disk="' || d.name || '"} '
       || DECODE(d.mode_status, 'ONLINE', 1, 0)
  FROM v$asm_disk_stat d JOIN v$asm_diskgroup_stat g ON g.group_number = d.group_number
 WHERE g.name IN ('ARCH', 'OLD')
 ORDER BY g.name, d.name;
SELECT 'asm_group_free_bytes{group="' || name || '"} ' || free_mb * 1024 * 1024
  FROM v$asm_diskgroup_stat ORDER BY name;
