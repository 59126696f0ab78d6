-- The tree of aliases over a join, with names of columns that only one view has.
set feedback off linesize 100 pagesize 100
column path format a60
select g.name || sys_connect_by_path(a.name, '/') path, level depth
  from v$asm_alias a, v$asm_diskgroup g
 where a.group_number = g.group_number
   and g.name = 'FRA'
 start with mod(parent_index, power(2, 24)) = 0
connect by prior reference_index = parent_index
 order by path;
exit
