-- Disks that are offline, and how long they will be waited for
-- mask: /(\d{1,2}):(\d\d) left/
SET PAGESIZE 20 LINESIZE 80 FEEDBACK OFF HEADING OFF
SELECT g.name || '.' || d.name || ' ' || d.mode_status || ', '
       || TRUNC(d.repair_timer / 3600) || ':' || LPAD(TRUNC(MOD(d.repair_timer, 3600) / 60), 2, '0') || ' left'
  FROM v$asm_disk d, v$asm_diskgroup g
 WHERE d.group_number = g.group_number
   AND d.mode_status <> 'ONLINE';
