-- COMPUTE AVG, MIN, MAX and COUNT of sizes on each failure group
set linesize 60 pagesize 60 feedback off
column failgroup format a10
column name format a10
column os_mb format 999.9
break on failgroup skip 1
compute avg min max count of os_mb on failgroup
select d.failgroup, d.name, d.os_mb
  from v$asm_disk d join v$asm_diskgroup g on g.group_number = d.group_number
 where g.name = 'LAB'
 order by d.failgroup, d.name;
clear breaks
clear computes
