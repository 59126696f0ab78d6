-- RENAME DISK statements for a group whose disks have names by number: generated, not run
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 100 TERMOUT ON
SELECT 'ALTER DISKGROUP ' || g.name || ' RENAME DISK ' || d.name || ' TO ' || g.name || '_'
       || TO_CHAR(ROW_NUMBER() OVER (PARTITION BY g.name ORDER BY d.disk_number), 'FM00') || ';'
  FROM v$asm_disk d, v$asm_diskgroup g
 WHERE d.group_number = g.group_number
   AND REGEXP_LIKE(d.name, '^' || g.name || '_[0-9]{4}$')
 ORDER BY d.disk_number;
