-- Partners of each disk of a mirrored group, from x$kfdpartner
set lines 70 pages 40 feed off
col disk for a10
col partners for a40
select d.name disk, listagg(p.number_kfdpartner, ',') within group (order by p.number_kfdpartner) partners
  from x$kfdpartner p
  join v$asm_disk_stat d on d.group_number = p.grp and d.disk_number = p.disk
  join v$asm_diskgroup_stat g on g.group_number = p.grp
 where g.name = 'DATA'
 group by d.name
 order by d.name;
