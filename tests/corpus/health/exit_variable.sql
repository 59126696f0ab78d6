-- EXIT with a bind variable: EXIT :n
SET FEEDBACK OFF HEADING OFF PAGESIZE 0
VARIABLE n NUMBER
EXEC :n := 5
SELECT 'leaving with ' || :n FROM dual;
EXIT :n
