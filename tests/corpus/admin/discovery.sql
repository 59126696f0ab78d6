-- The discovery string: shown as a parameter, set to what it is, and shown again
SET FEEDBACK OFF VERIFY OFF LINESIZE 200 PAGESIZE 20
COLUMN value NEW_VALUE string FORMAT a120
SELECT value FROM v$parameter WHERE name = 'asm_diskstring';
ALTER SYSTEM SET asm_diskstring = '&string' SCOPE = BOTH;
SELECT value FROM v$parameter WHERE name = 'asm_diskstring';
