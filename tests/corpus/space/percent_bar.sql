-- A bar for the percentage used of each group, as in a terminal without graphics
-- mask: BAR, PCT
set pagesize 20 linesize 70 feedback off
column name format a8
column bar  format a22
column pct  format a5
select name,
       '[' || rpad(nvl(rpad('#', round(20 * (total_mb - free_mb) / total_mb), '#'), ' '), 20, ' ') || ']' bar,
       to_char(100 * (total_mb - free_mb) / total_mb, '990') || '%' pct
  from v$asm_diskgroup
 order by total_mb desc, name;
