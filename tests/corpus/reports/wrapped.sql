-- Long texts in narrow columns: wrapped by default, cut by TRUNCATED, at words by WORD_WRAPPED
SET LINESIZE 60 PAGESIZE 20 FEEDBACK OFF
COLUMN a FORMAT a10
COLUMN b FORMAT a10 TRUNCATED
COLUMN c FORMAT a12 WORD_WRAPPED
SELECT 'abcdefghijklmno' a, 'abcdefghijklmno' b, 'one two three four' c FROM dual;
