-- All ways to give a value: arguments, DEFINE, ACCEPT with a default, NEW_VALUE
-- usage: printf '\n' | sqlplus -S / as sysasm @accept_args first "second word"
SET VERIFY OFF HEADING OFF FEEDBACK OFF PAGESIZE 0
DEFINE third = 'third value'
ACCEPT fourth CHAR DEFAULT 'fourth' PROMPT 'Fourth? '
COLUMN c NEW_VALUE fifth
SELECT 'fifth' c FROM dual;
PROMPT &1, &2, &third, &fourth, &fifth
SELECT '&1' || '/' || '&2' || '/' || '&third' || '/' || '&fourth' || '/' || '&fifth' FROM dual;
