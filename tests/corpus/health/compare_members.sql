-- Health check: disks that discovery finds and the group does without, as OK or FAIL lines
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 100
SELECT CASE WHEN d.mount_status = 'MISSING' OR d.mode_status = 'OFFLINE' THEN 'FAIL ' ELSE 'OK   ' END
       || g.name || ' ' || d.name
  FROM v$asm_diskgroup g
  JOIN v$asm_disk d
 USING (group_number)
 WHERE g.name IN ('OLD', 'ARCH')
 ORDER BY g.name, d.name;
