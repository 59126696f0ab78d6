-- A snapshot with the time, as a job keeps it every minute: one line, comma separated
-- mask: /,(\d+),(\d+),(\d+),(\d+)$/
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 200 TRIMOUT ON
ALTER SESSION SET nls_date_format = 'YYYY-MM-DD HH24:MI:SS';
SELECT SYSDATE || ',' || g.name || ',' || SUM(d.reads) || ',' || SUM(d.writes) || ','
       || SUM(d.bytes_read) || ',' || SUM(d.bytes_written)
  FROM v$asm_disk_stat d JOIN v$asm_diskgroup_stat g ON g.group_number = d.group_number
 GROUP BY g.name
 ORDER BY g.name;
