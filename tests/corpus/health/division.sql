-- A ratio that divides by zero ends the script with the code that it asks for.
-- refused: ORA-01476
set feedback off
whenever sqlerror exit 7
select count(*) from v$asm_diskgroup where 1 / (total_mb - total_mb) > 0;
prompt not reached
exit
