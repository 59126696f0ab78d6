-- The statements that give another group the attributes of this one which can be set
-- usage: sqlplus -S / as sysasm @attributes DATA repair
SET VERIFY OFF FEEDBACK OFF HEADING OFF PAGESIZE 0 LINESIZE 132
SELECT 'ALTER DISKGROUP &1 SET ATTRIBUTE ''' || a.name || ''' = ''' || a.value || ''';'
  FROM v$asm_attribute a
  JOIN v$asm_diskgroup g ON g.group_number = a.group_number
 WHERE g.name = '&1'
   AND a.read_only = 'N'
   AND a.name LIKE '%&2%'
 ORDER BY a.name;
