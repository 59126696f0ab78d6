-- Path, value and time in seconds since 1970, computed from SYSDATE
-- mask: /(\d{10})$/
SET HEADING OFF FEEDBACK OFF PAGESIZE 0 LINESIZE 120
SELECT 'plinth.' || LOWER(name) || '.disks ' || (SELECT COUNT(*) FROM v$asm_disk d WHERE d.group_number = g.group_number)
       || ' ' || ROUND((SYSDATE - TO_DATE('1970-01-01', 'YYYY-MM-DD')) * 86400)
  FROM v$asm_diskgroup g
 ORDER BY name;
