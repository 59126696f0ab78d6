-- Directories without entries below them, and files: CONNECT_BY_ISLEAF
set pages 60 lines 80 feed off
col path for a50
col leaf for 9
select '+FRA' || sys_connect_by_path(name, '/') path, connect_by_isleaf leaf
from (select name, parent_index, reference_index
        from v$asm_alias where group_number = (select group_number from v$asm_diskgroup where name = 'FRA'))
start with mod(parent_index, power(2, 24)) = 0
connect by prior reference_index = parent_index
order by 1;
