select instname, dbname, group_number, disk_number, failgroup, reads, writes,
       round(bytes_read / 1048576, 1) mb_read, round(bytes_written / 1048576, 1) mb_written
  from v$asm_disk_iostat order by bytes_read + bytes_written desc, disk_number;
