-- A generator whose output is piped into a second client, which carries it out
-- usage: sqlplus -S / as sysasm @chain | plinth sql
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 100
SELECT 'ALTER DISKGROUP lab ADD TEMPLATE chain_' || LEVEL || ' ATTRIBUTES (MIRROR COARSE);'
  FROM dual
CONNECT BY LEVEL <= 3;
SELECT 'SELECT COUNT(*) AS made FROM v$asm_template WHERE name LIKE ''CHAIN%'';' FROM dual;
SELECT 'ALTER DISKGROUP lab DROP TEMPLATE chain_1, chain_2, chain_3;' FROM dual;
