-- Grants are on v_$ views, so that some modules query these
SET PAGESIZE 0 FEEDBACK OFF
SELECT COUNT(*) FROM v_$asm_diskgroup WHERE state = 'MOUNTED';
SELECT MIN(inst_id) FROM gv_$asm_diskgroup;
