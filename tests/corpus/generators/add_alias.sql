-- An alias for each file of the system's names that has none, if there were such files
set heading off feedback on pagesize 0 linesize 150
select 'alter diskgroup fra add alias ''+FRA/' || regexp_substr(s.name, '^[^.]+') || ''' for ''+FRA/' || s.name || ''';'
  from v$asm_alias s
 where s.system_created = 'Y'
   and s.alias_directory = 'N'
   and s.group_number = (select group_number from v$asm_diskgroup where name = 'FRA')
   and not exists (select null from v$asm_alias u
                    where u.group_number = s.group_number
                      and u.file_number = s.file_number
                      and u.system_created = 'N')
 order by 1;
