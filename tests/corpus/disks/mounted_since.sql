-- How long each group has been mounted, from the disks: less than a day here
SET PAGES 30 LINES 60 FEED OFF
COL name FOR a8
COL mounted FOR a20
SELECT DISTINCT g.name,
       CASE WHEN (SYSDATE - d.mount_date) * 24 * 60 BETWEEN 0 AND 1440 THEN 'less than a day'
            ELSE ROUND(SYSDATE - d.mount_date) || ' days' END mounted
  FROM v$asm_disk d JOIN v$asm_diskgroup g ON g.group_number = d.group_number
 WHERE d.mode_status = 'ONLINE'
 ORDER BY g.name;
