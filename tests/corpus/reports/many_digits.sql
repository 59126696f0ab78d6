-- Numbers with more digits than there are here: refused, and never cut
-- refused: ORA-01426
set heading off pagesize 0 feedback off linesize 100 numwidth 44
select 1/3 a from dual;
select 123456789012345678 + 1 a from dual;
select 123456789012345678901234567890 + 1 a from dual;
