-- disks that can be taken
select substr(path, instr(path, '/', -1) + 1) file_name, header_status, os_mb,
       nvl(name, '-') name, rownum
  from v$asm_disk
 where header_status in ('CANDIDATE', 'PROVISIONED', 'FORMER') and group_number = 0
 order by path;
