-- The answers to ACCEPT and to a variable without a value, from a pipe.
-- usage: printf 'data\n2\n' | sqlplus -S / as sysasm @answered
set verify off feedback off linesize 80 pagesize 50
accept group_name char prompt 'Disk group: '
column name format a10
select g.name, count(*) disks
  from v$asm_diskgroup g, v$asm_disk d
 where g.group_number = d.group_number and g.name = upper('&group_name')
 group by g.name
having count(*) >= &at_least;
exit
