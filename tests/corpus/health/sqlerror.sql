-- WHENEVER SQLERROR: the first refused statement ends the script with its exit code
-- refused: ORA-15054
WHENEVER SQLERROR EXIT 3
SET FEEDBACK OFF PAGESIZE 0
SELECT 'before' FROM dual;
ALTER DISKGROUP lab ONLINE DISK nodisk;
SELECT 'not reached' FROM dual;
