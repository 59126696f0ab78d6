-- Count and size of files by type in each group, with a subtotal by BREAK and COMPUTE
SET LINES 100 PAGES 60 FEED OFF
COLUMN dg    FORMAT a8     HEADING 'Group'
COLUMN type  FORMAT a16    HEADING 'File type'
COLUMN files FORMAT 9990   HEADING 'Files'
COLUMN bytes FORMAT 999,999,990 HEADING 'Bytes'
BREAK ON dg SKIP 1 ON REPORT
COMPUTE SUM LABEL 'Sum' OF files bytes ON dg
COMPUTE SUM LABEL 'Total' OF files bytes ON REPORT
SELECT g.name dg, f.type, COUNT(*) files, SUM(f.bytes) bytes
  FROM v$asm_file f
  JOIN v$asm_diskgroup_stat g ON g.group_number = f.group_number
 WHERE g.name IN ('DATA', 'FRA', 'ARCH')
   AND f.type <> 'ASMVOL'
 GROUP BY g.name, f.type
 ORDER BY g.name, f.type;
CLEAR BREAKS
CLEAR COMPUTES
