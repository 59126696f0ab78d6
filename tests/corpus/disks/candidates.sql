-- Disks that a new group could use, smallest first, and how much they would add
set pagesize 20 linesize 90 feedback off
col disk for a12
col header_status for a10
col os_mb for 9999
col running for 99999
select regexp_substr(path, '[^/]+$') disk, header_status, os_mb,
       sum(os_mb) over (order by os_mb, path rows unbounded preceding) running
  from v$asm_disk
 where header_status in ('CANDIDATE', 'FORMER', 'PROVISIONED')
 order by os_mb, path;
