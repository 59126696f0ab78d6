-- Groups as JSON objects by json_object with KEY ... VALUE, and by json_arrayagg
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 400 LONG 10000
SELECT json_object(KEY 'name' VALUE name, KEY 'type' VALUE type, KEY 'offline' VALUE offline_disks)
  FROM v$asm_diskgroup ORDER BY name;
SELECT json_arrayagg(name ORDER BY name) FROM v$asm_diskgroup;
