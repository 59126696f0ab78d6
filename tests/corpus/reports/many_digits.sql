-- Numbers with all the digits that NUMBER has
-- fault: numbers have 15 digits or 64 bits, not 38 digits
set heading off pagesize 0 feedback off linesize 100 numwidth 44
select 1/3 a from dual;
select 123456789012345678901234567890 + 1 a from dual;
