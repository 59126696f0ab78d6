-- Statements from the standard input of plinth sql, SQL*Plus's commands between them
-- usage: cat stdin.sql | plinth sql -S
set pages 0 feed off
select name from v$asm_diskgroup where type = 'HIGH';
/
rem the slash above carries out the statement once more
select count(*) from v$asm_disk where name like 'ARCH%'
/
