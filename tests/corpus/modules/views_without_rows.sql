-- Views about what is not used have no rows, and their columns are there.
set linesize 100 pagesize 50
select fs_name, total_mb, free_mb from v$asm_acfsvolumes;
select count(*) snapshots from gv$asm_acfssnapshots;
select count(*) trails from v$asm_audit_config_params where parameter_name is not null;
select g.name, f.name file_group
  from v$asm_diskgroup g left join v$asm_filegroup f on f.group_number = g.group_number
 where g.name = 'DATA';
select name from v$controlfile;
select count(*) other_instances from gv$cluster_interconnects;
describe v$asm_quotagroup
select count(*) listed from v$fixed_table where name in ('V$ASM_DISK', 'GV$ASM_DISK', 'X$KFFXP');
exit
