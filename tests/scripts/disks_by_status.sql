select header_status, mount_status, mode_status, state, count(*)
  from v$asm_disk group by header_status, mount_status, mode_status, state
 order by count(*) desc, header_status;
