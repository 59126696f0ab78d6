select group_number, name, sector_size, block_size, state
from v$asm_diskgroup;

select disk_number, mount_status, header_status, state, sector_size, path
from v$asm_disk
where group_number = (select group_number from v$asm_diskgroup where name = upper('data'))
order by 1;
