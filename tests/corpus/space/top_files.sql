-- The largest files of a group with their full names: @top_files GROUP COUNT
-- usage: sqlplus -S / as sysasm @top_files data 3
SET VERIFY OFF FEEDBACK OFF PAGESIZE 50 LINESIZE 120 TRIMOUT ON
DEFINE grp = &1
DEFINE how_many = &2
COLUMN full_name FORMAT a50
COLUMN mb        FORMAT 9,990.9
COLUMN type      FORMAT a16

PROMPT
PROMPT Largest &how_many files of &grp
SELECT *
  FROM (SELECT p.full_name, f.type, ROUND(f.bytes / 1048576, 1) mb
          FROM (SELECT '+' || gname || SYS_CONNECT_BY_PATH(aname, '/') full_name,
                       gnum, fnum, isdir, sysname
                  FROM (SELECT g.name gname, g.group_number gnum, a.name aname, a.file_number fnum,
                               a.parent_index pidx, a.reference_index ridx,
                               a.alias_directory isdir, a.system_created sysname
                          FROM v$asm_alias a, v$asm_diskgroup g
                         WHERE a.group_number = g.group_number
                           AND g.name = UPPER('&grp'))
                 START WITH MOD(pidx, POWER(2, 24)) = 0
               CONNECT BY PRIOR ridx = pidx) p,
               v$asm_file f
         WHERE p.gnum = f.group_number
           AND p.fnum = f.file_number
           AND p.isdir = 'N'
           AND p.sysname = 'N'
         ORDER BY f.bytes DESC, p.full_name)
 WHERE ROWNUM <= &how_many;
UNDEFINE grp
UNDEFINE how_many
