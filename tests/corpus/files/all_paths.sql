-- Every file and directory of every group with its full path, by CONNECT BY over v$asm_alias
set lines 120 pages 200 feed off
col full_path for a60
col dir for a3
col sys for a3
select concat('+' || gname, sys_connect_by_path(aname, '/')) full_path, dir, sys
from (
  select g.name gname, a.parent_index pindex, a.name aname, a.reference_index rindex,
         a.alias_directory dir, a.system_created sys
  from   v$asm_alias a, v$asm_diskgroup g
  where  a.group_number = g.group_number
  and    g.name in ('DATA', 'FRA', 'ARCH')
)
start with (mod(pindex, power(2, 24))) = 0
connect by prior rindex = pindex
order by 1;
