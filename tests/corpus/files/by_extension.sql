-- Files by the end of their names: REGEXP_SUBSTR with position and occurrence
SET PAGESIZE 30 LINESIZE 60 FEEDBACK OFF
COLUMN ending FORMAT a10
COLUMN n      FORMAT 990
SELECT NVL(LOWER(REGEXP_SUBSTR(a.name, '\.[a-z]+$', 1, 1, 'i')), '(none)') ending, COUNT(*) n
  FROM v$asm_alias a JOIN v$asm_diskgroup g ON g.group_number = a.group_number
 WHERE a.alias_directory = 'N'
   AND a.system_created = 'N'
   AND g.name <> 'LAB'
 GROUP BY NVL(LOWER(REGEXP_SUBSTR(a.name, '\.[a-z]+$', 1, 1, 'i')), '(none)')
 ORDER BY n DESC, ending;
