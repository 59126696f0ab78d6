-- Names of a group as a tree, two blanks for each level, in the order of siblings
-- usage: sqlplus -S / as sysasm @tree DATA
SET VERIFY OFF FEEDBACK OFF HEADING OFF PAGESIZE 0 LINESIZE 100
SELECT LPAD(' ', 2 * (LEVEL - 1)) || name || DECODE(alias_directory, 'Y', '/', '')
  FROM v$asm_alias
 WHERE group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = UPPER('&1'))
 START WITH MOD(parent_index, POWER(2, 24)) = 0
        AND group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = UPPER('&1'))
CONNECT BY PRIOR reference_index = parent_index
       AND PRIOR group_number = group_number
 ORDER SIBLINGS BY name;
