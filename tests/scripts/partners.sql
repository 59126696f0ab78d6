-- which disks mirror with which
select d.grp group_number, d.disk disk_number, count(*) partners,
       listagg(d.number_kfdpartner, ',') within group (order by d.number_kfdpartner) which
  from x$kfdpartner d
 where d.active_kfdpartner = 1
 group by d.grp, d.disk
 order by 1, 2;
