-- SHOW of settings, of the user, and of parameters
-- usage: sqlplus -S / as sysasm @show
SET PAGESIZE 33 LINESIZE 77
SHOW PAGESIZE
SHOW LINESIZE
SHOW USER
SET FEEDBACK OFF
