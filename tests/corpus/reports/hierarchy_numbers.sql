-- Rows out of nothing: CONNECT BY LEVEL, and what sums and strings make of them
set pagesize 40 linesize 60 feedback off
column line format a20
select level n, lpad('*', level, '*') line, sum(level) over (order by level) so_far
  from dual
connect by level <= 5;
select listagg(level, '-') within group (order by level desc) line from dual connect by level <= 4;
