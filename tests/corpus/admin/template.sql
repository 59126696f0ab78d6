-- A template is made, changed, shown each time, and dropped
set feedback off lines 60 pages 20
col name for a12
col stripe for a6
alter diskgroup lab add template corpus_fast attributes (mirror fine);
select name, redundancy, stripe from v$asm_template where name = 'CORPUS_FAST';
alter diskgroup lab modify template corpus_fast attributes (coarse);
select name, redundancy, stripe from v$asm_template where name = 'CORPUS_FAST'
/
alter diskgroup lab drop template corpus_fast;
select count(*) left_over from v$asm_template where name = 'CORPUS_FAST';
