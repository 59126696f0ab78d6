-- Which groups could restore redundancy after the loss of a failure group, if they had to now
SET PAGESIZE 20 LINESIZE 80 FEEDBACK OFF
COL name    FORMAT a8
COL verdict FORMAT a30
SELECT name, type,
       DECODE(SIGN(free_mb - required_mirror_free_mb),
              1, 'room to restore redundancy',
              0, 'just enough',
             -1, 'NOT enough free space') verdict
  FROM v$asm_diskgroup_stat
 WHERE type IN ('NORMAL', 'HIGH')
 ORDER BY name;
