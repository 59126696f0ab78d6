-- Hidden parameters, of which there are none, and the attempt to set one; visible ones are there.
-- refused: ORA-02065
set feedback off linesize 100 pagesize 50
column name format a20
column value format a10
select i.ksppinm name, v.ksppstvl value
  from sys.x$ksppi i, sys.x$ksppcv v
 where i.indx = v.indx and i.ksppinm like '\_%' escape '\';
select i.ksppinm name, v.ksppstvl value,
       decode(bitand(i.ksppiflg / 65536, 3), 1, 'IMMEDIATE', 'FALSE') by_system,
       decode(bitand(v.ksppstvf, 7), 1, 'MODIFIED', 4, 'SYSTEM_MOD', 'FALSE') modified
  from x$ksppi i join x$ksppsv v on i.indx = v.indx
 where i.ksppinm in ('cluster_database', 'instance_type')
 order by 1;
alter system set "_a_hidden_one" = true scope = memory;
exit
