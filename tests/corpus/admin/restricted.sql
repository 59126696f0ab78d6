-- Mounts a group restricted, for work without users, and then normally
set feedback off pages 20 lines 60
col state for a12
alter diskgroup lab dismount force;
alter diskgroup lab mount restricted;
select name, state from v$asm_diskgroup_stat where name = 'LAB';
alter diskgroup lab dismount;
alter diskgroup lab mount normal;
select name, state from v$asm_diskgroup_stat where name = 'LAB';
