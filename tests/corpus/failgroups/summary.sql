-- Failure groups of each group: how many, and whether they have as many disks each
SET LINESIZE 100 PAGESIZE 20 FEEDBACK OFF
COLUMN name       FORMAT a8
COLUMN redundancy FORMAT a10
COLUMN groups     FORMAT 999
COLUMN even       FORMAT a5
SELECT name, redundancy, COUNT(*) groups, DECODE(MIN(disks), MAX(disks), 'yes', 'no') even
  FROM (SELECT g.name, g.type redundancy, d.failgroup, COUNT(*) disks
          FROM v$asm_diskgroup g, v$asm_disk d
         WHERE g.group_number = d.group_number
         GROUP BY g.name, g.type, d.failgroup)
 GROUP BY name, redundancy
 ORDER BY name;
