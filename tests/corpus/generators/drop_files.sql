-- Generator of DROP FILE for everything of one type in a group: @drop_files GROUP TYPE
-- usage: sqlplus -S / as sysasm @drop_files fra ARCHIVELOG
set heading off feedback off verify off pagesize 0 linesize 200 trimspool on
select 'alter diskgroup ' || g.name || ' drop file ''+' || g.name || '/' || a.name || ''';'
  from v$asm_diskgroup g, v$asm_file f, v$asm_alias a
 where g.group_number = f.group_number
   and f.group_number = a.group_number
   and f.file_number = a.file_number
   and a.system_created = 'N'
   and g.name = upper('&1')
   and f.type = '&2'
 order by a.name;
