-- Health check in two statements with a result of its own for each, and one exit code at the end
set feedback off heading off pagesize 0 verify off
define errs = 0
column e new_value errs
select count(*) e from v$asm_disk where header_status in ('UNKNOWN', 'INCOMPATIBLE', 'CONFLICT');
define hung = 0
column h new_value hung
select count(*) h from v$asm_disk where state = 'HUNG';
exit errs
