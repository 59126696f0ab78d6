-- Extents with two mirrors in one failure group: there must be none
set pages 20 lines 80 feed 1
select p.group_kffxp grp, p.number_kffxp file_no, p.xnum_kffxp extent, d.failgroup, count(*)
  from x$kffxp p, v$asm_disk_stat d, v$asm_diskgroup_stat g
 where d.group_number = p.group_kffxp
   and d.disk_number = p.disk_kffxp
   and g.group_number = p.group_kffxp
   and g.type <> 'EXTERN'
 group by p.group_kffxp, p.number_kffxp, p.xnum_kffxp, d.failgroup
having count(*) > 1;
