-- Shell commands instead of statements: asmcmd offline for every disk of a failure group
-- usage: sqlplus -S / as sysasm @kill_list LAB WEST
SET VERIFY OFF FEED OFF HEAD OFF PAGES 0 LINES 90
SELECT 'asmcmd offline -G ' || g.name || ' -D ' || d.name
  FROM v$asm_diskgroup g INNER JOIN v$asm_disk d ON d.group_number = g.group_number
 WHERE g.name = '&1' AND d.failgroup = '&2'
 ORDER BY d.disk_number DESC;
