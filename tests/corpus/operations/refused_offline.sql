-- Both failure groups cannot be offline at once: the second is refused, and the script says so
-- refused: ORA-15066
SET FEEDBACK OFF PAGESIZE 20 LINESIZE 80
WHENEVER SQLERROR CONTINUE
ALTER DISKGROUP lab OFFLINE DISKS IN FAILGROUP east;
ALTER DISKGROUP lab OFFLINE DISKS IN FAILGROUP west;
ALTER DISKGROUP lab ONLINE ALL WAIT;
SELECT COUNT(*) online_disks FROM v$asm_disk_stat d, v$asm_diskgroup_stat g
 WHERE d.group_number = g.group_number AND g.name = 'LAB' AND d.mode_status = 'ONLINE';
