-- Disks with errors or timeouts; no row: all are well
set feedback on lines 100 pages 20
select g.name grp, d.name disk, d.read_errs, d.write_errs, nvl(d.read_timeout, 0) rto, nvl(d.write_timeout, 0) wto
from   v$asm_disk_stat d, v$asm_diskgroup_stat g
where  g.group_number = d.group_number
and    d.read_errs + d.write_errs + nvl(d.read_timeout, 0) + nvl(d.write_timeout, 0) > 0
order  by 1, 2;
