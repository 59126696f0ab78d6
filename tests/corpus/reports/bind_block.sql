-- A block that only gives values to variables, and the queries that use them.
set feedback off linesize 80 pagesize 50
variable wanted varchar2(30)
variable least number
begin
  :wanted := upper('fra');
  :least := 2 * 8;
end;
/
column name format a10
select name, :least least from v$asm_diskgroup where name = :wanted and total_mb > :least;
begin
  :wanted := null;
end;
/
select count(*) found from v$asm_diskgroup where name = nvl(:wanted, name);
exit
