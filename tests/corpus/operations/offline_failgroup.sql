-- A whole failure group goes and comes back, with a count of offline disks in between
set feedback off heading on pages 20 lines 60
alter diskgroup lab offline disks in failgroup west;
select offline_disks from v$asm_diskgroup where name = 'LAB';
alter diskgroup lab online disks in failgroup west wait;
select offline_disks from v$asm_diskgroup where name = 'LAB';
