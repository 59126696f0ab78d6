-- Health check: exit code 2 if a group is fuller than &1 percent
-- usage: sqlplus -S / as sysasm @space_limit 99
set verify off heading off feedback off pagesize 0
variable rc number
exec :rc := 0
column worst new_value worst_used
select case when max(100 * (1 - free_mb / total_mb)) > &1 then 2 else 0 end worst
  from v$asm_diskgroup where total_mb > 0;
prompt limit &1 percent
exit &worst_used
