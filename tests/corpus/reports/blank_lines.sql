-- Statements with a blank line before the slash that runs them, as they are kept in notes; the
-- slash alone runs the last one again.
set linesize 100 pagesize 50
select name, type from v$asm_diskgroup
where state = 'MOUNTED'
order by name

/
select count(*) groups
  from v$asm_diskgroup


/
/
exit
