-- Reads, writes and their quotient for each purpose of I/O, purposes without reads included
-- mask: READS, WRITES, QUOTIENT
set lines 80 pages 30 feed off numwidth 12
col dbname for a12
select i.dbname, sum(i.reads) reads, sum(i.writes) writes,
       round(sum(i.reads) / nullif(sum(i.writes), 0), 3) quotient
  from v$asm_disk_iostat i
 where i.dbname in ('CATALOG', 'FILES', 'RECORDS')
 group by i.dbname
 order by i.dbname;
