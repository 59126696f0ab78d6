SET TIMING ON
SELECT group_number,type,COUNT(*), sum(bytes) bytes
  FROM v$asm_file
 GROUP BY group_number,type
 ORDER BY 1, 2
/
