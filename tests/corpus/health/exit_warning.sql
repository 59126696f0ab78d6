-- EXIT WARNING is 1 or another small number, and never 0
set feedback off pages 0
select 'that was a warning' from dual;
exit warning
