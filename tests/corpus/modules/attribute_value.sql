-- The value of one attribute, to decide whether it must be changed: @attribute_value GROUP NAME
-- usage: sqlplus -S / as sysasm @attribute_value lab content.type
set heading off feedback off verify off pagesize 0
select lower(a.value)
  from v$asm_attribute a, v$asm_diskgroup g
 where a.group_number = g.group_number
   and lower(g.name) = lower('&1')
   and lower(a.name) = lower('&2');
