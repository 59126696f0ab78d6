-- asm_files.sql: the full path of every alias, with the size and type of its file
SET LINESIZE 200
SET PAGESIZE 9999
SET VERIFY OFF
COLUMN full_alias_path FORMAT a75 HEAD 'Full path'
COLUMN bytes FORMAT 999,999,999,999
PROMPT
PROMPT it's a long list in large groups

SELECT
    CONCAT('+' || gname, SYS_CONNECT_BY_PATH(aname, '/')) full_alias_path
  , dir
  , sys
  , LEVEL lvl
FROM
    ( SELECT g.name             gname
           , a.parent_index     pindex
           , a.name             aname
           , a.reference_index  rindex
           , a.alias_directory  dir
           , a.system_created   sys
      FROM
             v$asm_alias     a
           , v$asm_diskgroup g
      WHERE  a.group_number = g.group_number
    )
START WITH (MOD(pindex, POWER(2, 24))) = 0
CONNECT BY PRIOR rindex = pindex
ORDER BY full_alias_path
/
