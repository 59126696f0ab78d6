-- A report whose argument may be left out: a query without rows defines it, and NVL chooses.
-- usage: sqlplus -S / as sysasm @default_argument && sqlplus -S / as sysasm @default_argument FRA
set verify off feedback off linesize 80 pagesize 50
column 1 new_value 1 noprint
select '' "1" from dual where rownum = 0;
column chosen format a10
select nvl('&1', '(all)') chosen, count(*) groups
  from v$asm_diskgroup
 where name like nvl(upper('&1'), '%');
exit
