-- CREATE DISKGROUP of a group as it is, put together over several rows
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 300 TRIMOUT ON
COLUMN o NOPRINT
SELECT 1 o, 'CREATE DISKGROUP ' || name || ' ' || DECODE(type, 'EXTERN', 'EXTERNAL', type) || ' REDUNDANCY'
  FROM v$asm_diskgroup WHERE name = 'ARCH'
UNION ALL
SELECT 2, '  FAILGROUP ' || failgroup || ' DISK ''' || path || ''' NAME ' || name
  FROM v$asm_disk WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'ARCH')
UNION ALL
SELECT 3, '  ATTRIBUTE ''au_size'' = ''' || allocation_unit_size / 1048576 || 'M'';'
  FROM v$asm_diskgroup WHERE name = 'ARCH'
 ORDER BY 1, 2;
