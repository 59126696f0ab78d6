-- Generator of DROP FILE for everything of one type in a group: @drop_files GROUP TYPE
-- usage: sqlplus -S / as sysasm @drop_files fra ARCHIVELOG
set heading off feedback off verify off pagesize 0 linesize 200 trimspool on
select 'alter diskgroup ' || g.name || ' drop file ''+' || g.name || '.' || f.file_number
       || '.' || f.incarnation || ''';'
  from v$asm_diskgroup g, v$asm_file f
 where g.group_number = f.group_number
   and g.name = upper('&1')
   and f.type = '&2'
 order by f.file_number;
