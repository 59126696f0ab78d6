-- Requests and megabytes of each disk since its group was mounted
-- mask: Reads, Writes, MB read, MB written
SET LINESIZE 110 PAGESIZE 60 FEEDBACK OFF
COLUMN dg         FORMAT a6
COLUMN disk       FORMAT a12
COLUMN reads      FORMAT 99,999,990    HEADING 'Reads'
COLUMN writes     FORMAT 99,999,990    HEADING 'Writes'
COLUMN mb_read    FORMAT 999,990.9     HEADING 'MB read'
COLUMN mb_written FORMAT 999,990.9     HEADING 'MB written'
SELECT g.name dg, d.name disk, d.reads, d.writes,
       d.bytes_read / POWER(1024, 2) mb_read,
       d.bytes_written / POWER(1024, 2) mb_written
  FROM v$asm_disk_stat d, v$asm_diskgroup_stat g
 WHERE d.group_number = g.group_number
   AND d.mode_status = 'ONLINE'
 ORDER BY 1, 2;
