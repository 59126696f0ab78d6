-- Makes a directory unless it is there: an error of one kind is accepted, and another would not be
-- refused: ORA-15005
WHENEVER SQLERROR CONTINUE
SET FEEDBACK ON
ALTER DISKGROUP lab ADD DIRECTORY '+LAB/module_dir';
ALTER DISKGROUP lab ADD DIRECTORY '+LAB/module_dir';
ALTER DISKGROUP lab DROP DIRECTORY '+LAB/module_dir';
EXIT SUCCESS
