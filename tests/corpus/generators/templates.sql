-- ADD TEMPLATE for each template that is not the system's, with q'[...]' for the quotation marks
set feed off head off pages 0 lines 100
select q'[alter diskgroup ]' || g.name || ' add template ' || lower(t.name)
       || ' attributes (' || t.redundancy || ' ' || t.stripe || q'[);]'
  from v$asm_template t, v$asm_diskgroup g
 where t.group_number = g.group_number and t.system = 'N'
   and g.name in ('DATA', 'FRA', 'ARCH');
