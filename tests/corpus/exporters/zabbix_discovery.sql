-- Low-level discovery as one JSON text: LISTAGG of objects
set heading off feedback off pagesize 0 linesize 400
select '{"data":[' || listagg('{"{#DG}":"' || name || '","{#TYPE}":"' || type || '"}', ',')
       within group (order by name) || ']}'
  from v$asm_diskgroup;
