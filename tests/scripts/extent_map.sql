-- where the extents of a file are
select disk_kffxp disk_number, count(*) extents, min(au_kffxp) first_au
  from x$kffxp
 where group_kffxp = 1 and number_kffxp >= 256 and disk_kffxp <> 65534
 group by disk_kffxp
 order by 1;
