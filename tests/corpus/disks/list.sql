-- All disks of all groups with their state, one line each
SET LINESIZE 150 PAGESIZE 100 FEEDBACK OFF TAB OFF
COLUMN group_name    FORMAT a8  HEADING 'GROUP'
COLUMN disk_number   FORMAT 990 HEADING 'DISK|NO'
COLUMN name          FORMAT a12
COLUMN failgroup     FORMAT a10
COLUMN mount_status  FORMAT a7  HEADING 'MOUNT|STATUS'
COLUMN header_status FORMAT a10 HEADING 'HEADER|STATUS'
COLUMN mode_status   FORMAT a7  HEADING 'MODE|STATUS'
COLUMN state         FORMAT a8
COLUMN os_mb         FORMAT 9,990 HEADING 'OS MB'

SELECT NVL(g.name, '-') AS group_name
     , d.disk_number
     , d.name
     , d.failgroup
     , d.mount_status
     , d.header_status
     , d.mode_status
     , d.state
     , d.os_mb
  FROM v$asm_disk d
     , v$asm_diskgroup g
 WHERE d.group_number = g.group_number
 ORDER BY g.name, d.disk_number
/
