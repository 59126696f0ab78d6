-- '' is NULL, NULL concatenates to nothing, sorts last, and is counted by nothing
SET PAGESIZE 20 LINESIZE 60 FEEDBACK OFF NULL '(null)'
COLUMN x FORMAT a8
SELECT 'a' || '' || 'b' AS x FROM dual;
SELECT NVL('', 'was null') AS x FROM dual;
SELECT NVL(LENGTH(''), -1) n FROM dual;
SELECT x FROM (SELECT 'b' x FROM dual UNION ALL SELECT '' FROM dual UNION ALL SELECT 'a' FROM dual) ORDER BY x;
SELECT x FROM (SELECT 'b' x FROM dual UNION ALL SELECT NULL FROM dual UNION ALL SELECT 'a' FROM dual) ORDER BY x DESC;
SELECT COUNT(*) every, COUNT(x) known FROM (SELECT 1 x FROM dual UNION ALL SELECT NULL FROM dual);
SELECT CASE WHEN NULL = NULL THEN 'equal' WHEN NULL <> NULL THEN 'different' ELSE 'unknown' END x FROM dual;
