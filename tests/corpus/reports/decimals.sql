-- Decimals are exact: sums of tenths, products, rounding of halves
set heading off pagesize 0 feedback off linesize 100 numwidth 44
select 0.1 + 0.2 from dual;
select case when 0.1 + 0.2 = 0.3 then 'exact' else 'not exact' end from dual;
select round(2.5) a, round(-2.5) b, round(0.125, 2) c, trunc(-1.79, 1) d from dual;
select 100 * 1.1 from dual;
select mod(-7, 3) from dual;
