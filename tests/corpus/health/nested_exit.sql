-- EXIT in a script that was called by another ends both
SET FEEDBACK OFF PAGESIZE 0
SELECT 'outer' FROM dual;
@@inner_exit.inc 4
SELECT 'not reached' FROM dual;
