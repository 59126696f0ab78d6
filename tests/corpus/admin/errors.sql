-- Statements that are refused, with Oracle's numbers, while the script goes on
-- mask: /the views are (.*)/
-- refused: ORA-15001, ORA-15054, ORA-15006, ORA-00904, ORA-00942, ORA-20000
SET FEEDBACK OFF PAGESIZE 20 LINESIZE 80
WHENEVER SQLERROR CONTINUE NONE
ALTER DISKGROUP nothing REBALANCE;
ALTER DISKGROUP lab OFFLINE DISK nodisk;
ALTER DISKGROUP lab DROP TEMPLATE notemplate;
SELECT no_such_column FROM v$asm_disk;
SELECT * FROM v$asm_nothing;
ALTER DISKGROUP lab SET ATTRIBUTE 'au_size' = '4M';
SELECT 'reached the end' AS where_we_are FROM dual;
