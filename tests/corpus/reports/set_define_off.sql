-- With DEFINE OFF an ampersand is an ampersand; with another prefix it is that one
SET PAGESIZE 0 FEEDBACK OFF HEADING OFF VERIFY OFF
SET DEFINE OFF
SELECT 'Tom & Jerry' FROM dual;
SET DEFINE ON
SET DEFINE ^
DEFINE who = 'caret'
SELECT '^who & me' FROM dual;
SET DEFINE '&'
SELECT 'again ' || '&who' FROM dual;
