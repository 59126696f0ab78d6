-- What an instance of ASM refuses, and what it answers between: the script goes on.
-- refused: ORA-01109, ORA-01219, ORA-01507
set linesize 100 pagesize 50
select tablespace_name from dba_tablespaces;
select name from v$datafile;
select count(*) from all_tables;
create table kept as select * from v$asm_disk;
alter system switch logfile;
alter database open;
select 'still here' answer from dual;
exit
