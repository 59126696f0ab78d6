-- how evenly disks and failure groups are filled, and how different their sizes are
select g.name "Diskgroup",
       100*(max((d.total_mb-d.free_mb)/d.total_mb)-min((d.total_mb-d.free_mb)/d.total_mb))/max((d.total_mb-d.free_mb)/d.total_mb) "Imbalance",
       100*(max(d.total_mb)-min(d.total_mb))/max(d.total_mb) "Varience",
       100*(min(d.free_mb/d.total_mb)) "MinFree",
       count(*) "DiskCnt",
       g.type "Redundancy"
  from v$asm_disk d, v$asm_diskgroup g
 where d.group_number = g.group_number
   and d.group_number <> 0
   and d.state = 'NORMAL'
   and d.mount_status = 'CACHED'
 group by g.name, g.type;

select failgroup, count(*) disks, sum(total_mb) total_mb, listagg(name, ',') within group (order by name) members
  from v$asm_disk where group_number > 0 group by failgroup order by 1;
