-- Functions and models that are used less: NEXT_DAY, REMAINDER, ddth, zeros before hexadecimal digits
SET PAGESIZE 0 LINESIZE 80 FEEDBACK OFF
SELECT TO_CHAR(NEXT_DAY(DATE '2026-03-07', 'MONDAY'), 'YYYY-MM-DD') FROM dual;
SELECT REMAINDER(-7, 3) n FROM dual;
SELECT TO_CHAR(DATE '2026-03-07', 'fmDay, ddth Month YYYY') FROM dual;
SELECT TO_CHAR(255, 'fm0xxx') FROM dual;
