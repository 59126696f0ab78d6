-- Aliases with the size and the redundancy of their files, joined over three views
set lines 100 pages 40 feed off
col dg for a6
col name for a24
col bytes for 99,999,990
col redundancy for a10
break on dg
select g.name dg, a.name, f.bytes, f.redundancy, f.striped
  from v$asm_diskgroup g
  join v$asm_alias a on a.group_number = g.group_number
  join v$asm_file f on f.group_number = a.group_number
                   and f.file_number = a.file_number
                   and f.incarnation = a.file_incarnation
 where a.alias_directory = 'N' and a.system_created = 'N' and g.name in ('DATA', 'FRA', 'ARCH')
 order by g.name, a.name;
