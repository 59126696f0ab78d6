-- Volumes with their files and sizes
set lines 100 pages 20 feed off
column volume_name format a11
column state format a9
column dg format a6
select g.name dg, v.volume_name, v.size_mb, v.state, v.redundancy, v.usage, f.bytes / 1048576 file_mb
from v$asm_volume v, v$asm_file f, v$asm_diskgroup g
where v.group_number = f.group_number
and v.file_number = f.file_number
and g.group_number = v.group_number
order by 1, 2;
