-- The power that rebalances have by default, changed and put back
set feedback off pages 20 lines 60
col name for a20
col value for a10
alter system set asm_power_limit = 4;
select name, value from v$parameter where name = 'asm_power_limit';
alter system set asm_power_limit = 8 scope = both;
select value from v$parameter where name = 'asm_power_limit';
