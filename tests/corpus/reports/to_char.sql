-- TO_CHAR of numbers and of dates, in the models that reports use
set heading off pagesize 0 feedback off linesize 100
select to_char(1234567.891, '9,999,999.99') a from dual;
select '[' || to_char(5) || '][' || to_char(0.5) || '][' || to_char(-0.25) || ']' from dual;
select '[' || to_char(12, '000') || '][' || to_char(12, 'FM000') || '][' || to_char(1234, '999') || ']' from dual;
select to_char(date '2026-03-07', 'DD-MON-YYYY') || ' ' || to_char(date '2026-03-07', 'fmDay, dd Month YYYY') from dual;
select to_char(to_date('2026-03-07 15:04:09', 'YYYY-MM-DD HH24:MI:SS'), 'HH:MI:SS AM Q WW IW DDD') from dual;
select to_char(1048576, 'XXXXXXXX') || '|' || to_char(255, 'fmxxxx') from dual;
