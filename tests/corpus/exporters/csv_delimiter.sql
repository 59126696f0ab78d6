-- CSV with bars, and quoted texts, NULL as an empty field
set markup csv on delimiter | quote on
set feedback off
select label no_label, name, nvl2(failgroup, 'has one', 'has none') fg
  from v$asm_disk
 where name = 'OLD_R'
union all
select null, 'a "quoted" name', null from dual;
