-- A user of the group, and the group of users that has it as its member
set feedback on lines 60 pages 20
col os_name for a10
col name for a10
alter diskgroup lab add user 'daemon';
alter diskgroup lab add usergroup 'daemon' with member 'daemon';
set feedback off
select u.os_name, g.name from v$asm_user u, v$asm_usergroup g, v$asm_usergroup_member m
 where m.group_number = u.group_number and m.member_number = u.user_number
   and g.group_number = m.group_number and g.usergroup_number = m.usergroup_number
   and u.os_name = 'daemon';
set feedback on
alter diskgroup lab drop usergroup 'daemon';
alter diskgroup lab drop user 'daemon';
