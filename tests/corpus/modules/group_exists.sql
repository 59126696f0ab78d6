-- Does a group exist? The module reads the one word: @group_exists GROUP
-- usage: sqlplus -L -S / as sysasm @group_exists lab
set head off feed off verify off pages 0
select decode(count(*), 0, 'absent', 'present') from v$asm_diskgroup where name = upper('&1');
exit
