-- The rights to read and write files: permissions with owner and group joined by outer joins
SET PAGES 30 LINES 80 FEED OFF
COL name FOR a24
COL permissions FOR a11
COL owner FOR a8
SELECT a.name, f.permissions, NVL(u.os_name, '?') owner
  FROM v$asm_alias a
     , v$asm_file f
     , v$asm_user u
     , v$asm_diskgroup g
 WHERE a.group_number = g.group_number
   AND a.file_number  = f.file_number
   AND a.group_number = f.group_number
   AND u.group_number (+) = f.group_number
   AND u.user_number  (+) = f.user_number
   AND a.system_created = 'N'
   AND g.name = 'DATA'
 ORDER BY a.name;
