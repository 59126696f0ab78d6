-- Headings of columns without a name: the expression without its blanks, cut to the width of texts
SET PAGESIZE 20 LINESIZE 80 FEEDBACK OFF
SELECT 10 * 10,
       NVL( 5 ,
            6 )
  FROM dual;
SELECT SUM( os_mb ) - 1 FROM v$asm_disk WHERE name LIKE 'FRA%';
