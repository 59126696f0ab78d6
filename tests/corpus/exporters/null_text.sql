-- NULL shown as a word, numbers in a format of their own
set null 'n/a' numformat 99990.00 linesize 80 pagesize 20 feedback off
column name format a8
column label format a8
select name, label, os_mb from v$asm_disk_stat where name like 'ARCH%' order by name;
