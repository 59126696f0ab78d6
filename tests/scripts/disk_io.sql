-- reads, writes, errors and bytes by disk
select g.name || '/' || d.name disk, d.reads + d.writes ios, d.read_errs + d.write_errs errors,
       pg_size_pretty(d.bytes_written) written, greatest(d.reads, d.writes, 0) most
  from v$asm_disk_stat d join v$asm_diskgroup_stat g using (group_number)
 order by 1;
