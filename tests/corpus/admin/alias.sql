-- An alias for a file of the lab: added, renamed, found, dropped; the file stays
set feedback off pages 20 lines 60
alter diskgroup lab add alias '+LAB/corpus_one' for '+LAB/lab.dbf';
alter diskgroup lab rename alias '+LAB/corpus_one' to '+LAB/corpus_two';
select a.name from v$asm_alias a, v$asm_alias b
 where a.group_number = b.group_number and a.file_number = b.file_number
   and b.name = 'lab.dbf' and a.name <> b.name;
alter diskgroup lab drop alias '+LAB/corpus_two';
select count(*) names from v$asm_alias where name in ('lab.dbf', 'corpus_one', 'corpus_two');
