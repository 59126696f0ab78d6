-- The fullest and the emptiest disk of each group, and how far they are apart, in points
set pages 30 lines 90 feed off
col name for a8
col ok for a14 heading 'Balance'
select g.name,
       case when 100 * (max((d.total_mb - d.free_mb) / d.total_mb)
                      - min((d.total_mb - d.free_mb) / d.total_mb)) > 25
            then 'rebalance it'
            else 'balanced'
       end ok
from   v$asm_diskgroup g,
       v$asm_disk d
where  g.group_number = d.group_number
and    g.name in ('DATA', 'FRA', 'ARCH', 'LAB')
group by g.name
order by g.name
/
