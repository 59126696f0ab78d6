-- Files of FRA as JSON, an object a line
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 200
SELECT JSON_OBJECT('name' VALUE a.name, 'type' VALUE f.type, 'bytes' VALUE f.bytes)
  FROM v$asm_alias a JOIN v$asm_file f
    ON f.group_number = a.group_number AND f.file_number = a.file_number
 WHERE f.group_number = (SELECT group_number FROM v$asm_diskgroup WHERE name = 'FRA')
   AND a.system_created = 'N'
 ORDER BY a.name;
