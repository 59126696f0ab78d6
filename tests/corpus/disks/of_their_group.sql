-- Each disk beside numbers of its group: windows with DISTINCT values, lists, and a median.
set feedback off linesize 120 pagesize 50
column name format a12
column fellows format a40
select name,
       count(distinct failgroup) over (partition by group_number) failgroups,
       median(total_mb) over (partition by group_number) middle,
       listagg(failgroup, ',') within group (order by failgroup) over (partition by group_number) fellows,
       lag(name) ignore nulls over (order by name) previous
  from v$asm_disk
 where group_number = (select group_number from v$asm_diskgroup where name = 'DATA')
 order by name;
exit
