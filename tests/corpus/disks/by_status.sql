-- How many disks are in each state, as a matrix by DECODE
set lines 80 pages 20 feed off
column header_status format a13
column online  format 990
column offline format 990
column total   format 990
select header_status,
       sum(decode(mode_status, 'ONLINE', 1, 0)) online,
       sum(decode(mode_status, 'OFFLINE', 1, 0)) offline,
       count(*) total
  from v$asm_disk
 group by header_status
 order by header_status;
