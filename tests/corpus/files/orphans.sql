-- Files without any name in v$asm_alias, by NOT EXISTS; there should be none
SET FEEDBACK ON
SELECT f.group_number, f.file_number
  FROM v$asm_file f
 WHERE NOT EXISTS (SELECT 1
                     FROM v$asm_alias a
                    WHERE a.group_number = f.group_number
                      AND a.file_number = f.file_number);
