-- Operands of UNION ALL and MINUS in parentheses, and a sum of them all below.
set feedback off linesize 80 pagesize 50
column what format a12
(select name what, total_mb mb from v$asm_diskgroup where type = 'EXTERN')
union all
(select name, total_mb from v$asm_diskgroup where type <> 'EXTERN')
order by mb desc, what;

select count(*) not_external from (
  (select name from v$asm_diskgroup)
  minus
  (select name from v$asm_diskgroup where type = 'EXTERN')
);
exit
