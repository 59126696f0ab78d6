-- Sets an attribute only if it is another value, says CHANGED or SAME: @set_attribute GROUP NAME VALUE
-- usage: sqlplus -S / as sysasm @set_attribute lab content.type recovery && sqlplus -S / as sysasm @set_attribute lab content.type data
WHENEVER SQLERROR EXIT SQL.SQLCODE
SET HEADING OFF FEEDBACK OFF VERIFY OFF PAGESIZE 0 TERMOUT OFF
COLUMN said NEW_VALUE said
SELECT DECODE(a.value, '&3', 'SAME', 'CHANGED') said
  FROM v$asm_attribute a JOIN v$asm_diskgroup g USING (group_number)
 WHERE g.name = UPPER('&1') AND a.name = '&2';
SET TERMOUT ON
ALTER DISKGROUP &1 SET ATTRIBUTE '&2' = '&3';
PROMPT &said
EXIT SUCCESS
