-- Groups and how many of their disks are offline, groups without one included
SET PAGESIZE 30 LINESIZE 60 FEEDBACK OFF
COLUMN name    FORMAT a8
COLUMN offline FORMAT 990
SELECT g.name, COUNT(d.disk_number) AS offline
  FROM v$asm_diskgroup g
  LEFT OUTER JOIN v$asm_disk d
    ON d.group_number = g.group_number AND d.mode_status = 'OFFLINE'
 GROUP BY g.name
 ORDER BY g.name;
