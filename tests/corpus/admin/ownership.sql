-- Owner and permissions of a file, set and put back
SET FEEDBACK OFF LINESIZE 60 PAGESIZE 20
COL permissions FOR a11
ALTER DISKGROUP lab SET PERMISSION OWNER = READ WRITE, GROUP = NONE, OTHER = NONE FOR FILE '+LAB/lab.dbf';
SELECT f.permissions FROM v$asm_file f, v$asm_alias a
 WHERE a.group_number = f.group_number AND a.file_number = f.file_number AND a.name = 'lab.dbf';
ALTER DISKGROUP lab SET PERMISSION OWNER = READ WRITE, GROUP = READ ONLY, OTHER = READ ONLY
  FOR FILE '+LAB/lab.dbf';
SELECT f.permissions FROM v$asm_file f, v$asm_alias a
 WHERE a.group_number = f.group_number AND a.file_number = f.file_number AND a.name = 'lab.dbf';
