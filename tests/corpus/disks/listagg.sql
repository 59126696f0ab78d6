-- The disks of each failure group in one line, by LISTAGG
SET LINESIZE 100 PAGESIZE 40 FEEDBACK OFF
COLUMN dg      FORMAT a6
COLUMN fg      FORMAT a10
COLUMN members FORMAT a40
SELECT g.name dg, d.failgroup fg,
       LISTAGG(d.name, ', ') WITHIN GROUP (ORDER BY d.disk_number DESC) AS members
  FROM v$asm_disk d
 INNER JOIN v$asm_diskgroup g
    ON g.group_number = d.group_number
 GROUP BY g.name, d.failgroup
 ORDER BY g.name, d.failgroup;
