-- Sector sizes of groups and of their disks; no row: none differ
set feedback 1 pages 20 lines 80
select g.name, d.name disk, g.sector_size, d.sector_size
  from v$asm_diskgroup g, v$asm_disk d
 where g.group_number = d.group_number
   and d.mount_status = 'CACHED'
   and (g.sector_size <> d.sector_size or g.logical_sector_size <> d.logical_sector_size);
