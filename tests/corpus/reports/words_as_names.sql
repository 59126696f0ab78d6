-- Words that are no reserved words of Oracle's can be names of columns
SET PAGESIZE 20 LINESIZE 60 FEEDBACK OFF
SELECT 1 left, 2 right, 3 key, 4 value FROM dual;
