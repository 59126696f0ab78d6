-- WHENEVER OSERROR: a script that is missing ends this one
-- refused: SP2-0310
WHENEVER OSERROR EXIT 9
SET FEEDBACK OFF PAGESIZE 0
SELECT 'before' FROM dual;
@no_such_file_anywhere.sql
SELECT 'not reached' FROM dual;
