-- Files that have both a name of the system and an alias
-- mask: /(\d+)\.(\d{6,})\b/
set lines 100 pages 30 feed off
col alias_name for a24
col system_name for a36
select u.name alias_name, s.name system_name
  from v$asm_alias u, v$asm_alias s, v$asm_diskgroup g
 where u.group_number = s.group_number
   and u.file_number = s.file_number
   and u.file_incarnation = s.file_incarnation
   and u.system_created = 'N'
   and s.system_created = 'Y'
   and u.alias_directory = 'N'
   and g.group_number = u.group_number
   and g.name in ('DATA', 'FRA', 'ARCH')
 order by 1;
