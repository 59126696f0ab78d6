-- Decimals are exact: sums of tenths, quotients with 38 to 40 digits, rounding of halves
set heading off pagesize 0 feedback off linesize 100 numwidth 44
select 0.1 + 0.2 from dual;
select case when 0.1 + 0.2 = 0.3 then 'exact' else 'not exact' end from dual;
select 1/3 from dual;
select round(2.5), round(-2.5), round(0.125, 2), trunc(-1.79, 1) from dual;
select 100 * 1.1 from dual;
select 123456789012345678901234567890 + 1 from dual;
select mod(-7, 3), remainder(-7, 3) from dual;
