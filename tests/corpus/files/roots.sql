-- The top directory of each file, by CONNECT_BY_ROOT, and how many files each has
SET PAGESIZE 30 LINESIZE 60 FEEDBACK OFF
COL top   FOR a20
COL files FOR 990
SELECT top, COUNT(*) files
  FROM (SELECT CONNECT_BY_ROOT name top, alias_directory
          FROM (SELECT name, parent_index, reference_index, alias_directory
                  FROM v$asm_alias
                 WHERE group_number = (SELECT group_number FROM v$asm_diskgroup_stat WHERE name = 'DATA'))
         START WITH MOD(parent_index, POWER(2, 24)) = 0
       CONNECT BY PRIOR reference_index = parent_index)
 WHERE alias_directory = 'N'
 GROUP BY top
 ORDER BY top;
