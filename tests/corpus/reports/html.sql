-- A report in HTML, as jobs mail it: titles, sums, a column with tags of its own
SET FEEDBACK OFF PAGESIZE 100
SET MARKUP HTML ON ENTMAP ON TABLE "border='1'"
TTITLE LEFT 'Disks & failure groups'
BREAK ON failgroup ON REPORT
COMPUTE SUM LABEL 'All' OF os_mb ON REPORT
COLUMN os_mb HEADING 'Size|(MB)'
COLUMN link ENTMAP OFF
SELECT failgroup, name, '<b>' || mode_status || '</b>' AS link, os_mb
  FROM v$asm_disk_stat
 WHERE name LIKE 'DATA_A%'
 ORDER BY name;
PROMPT done > 0
SET MARKUP HTML OFF
PROMPT done > 0
