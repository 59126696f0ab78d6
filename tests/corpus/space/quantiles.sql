-- Median and quartiles of the sizes of files by group
SET PAGESIZE 20 LINESIZE 100 FEEDBACK OFF
COLUMN name FORMAT a8
COLUMN n    FORMAT 990
COLUMN q1   FORMAT 99,999,990
COLUMN med  FORMAT 99,999,990
COLUMN q3   FORMAT 99,999,990
SELECT g.name, COUNT(*) n,
       PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f.bytes) q1,
       MEDIAN(f.bytes) med,
       PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY f.bytes) q3
  FROM v$asm_file f JOIN v$asm_diskgroup g USING (group_number)
 WHERE g.name IN ('FRA', 'ARCH')
 GROUP BY g.name
 ORDER BY g.name;
