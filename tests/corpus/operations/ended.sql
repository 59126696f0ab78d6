-- Any operation in error; exit code 1 if there is one
SET HEADING OFF FEEDBACK OFF PAGESIZE 0
COLUMN bad NEW_VALUE exit_code NOPRINT
SELECT DECODE(COUNT(*), 0, 0, 1) bad,
       'operations in error: ' || COUNT(*)
  FROM v$asm_operation WHERE state = 'ERRS';
EXIT &exit_code
