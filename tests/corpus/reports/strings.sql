-- Functions of texts at the edges: SUBSTR from the end, INSTR backwards, TRIM, TRANSLATE
SET HEADING OFF PAGESIZE 0 FEEDBACK OFF LINESIZE 80
SELECT SUBSTR('/dev/mapper/data01', -6) FROM dual;
SELECT INSTR('/dev/mapper/data01', '/', -1) a, INSTR('aXbXc', 'X', 1, 2) b FROM dual;
SELECT TRIM(BOTH '/' FROM '//disks//') || '|' || LTRIM('xxabx', 'x') || '|' || RTRIM('abc   ') || '|' FROM dual;
SELECT TRANSLATE('2026-03-07', '0123456789-', '##########') FROM dual;
SELECT REGEXP_REPLACE('data_0007', '([a-z]+)_0*([0-9]+)', '\2 of \1') FROM dual;
SELECT REGEXP_SUBSTR('a=1;b=2;c=3', '[^;]+', 1, 2) FROM dual;
SELECT REGEXP_INSTR('disk 42', '[0-9]+') a, REGEXP_COUNT('a,b,c', ',') b FROM dual;
SELECT INITCAP('failure group') || LPAD('7', 3, '0') || RPAD('x', 3, '-') || CHR(33) FROM dual;
SELECT q'[it's]' || q'!"x"!' FROM dual;
