-- What the instance says of itself: name, status, role; the version's first number is there
-- usage: sqlplus -S / as sysasm @instance_facts
SET PAGESIZE 0 FEEDBACK OFF LINESIZE 120
SELECT status, database_status FROM v$instance;
SELECT CASE WHEN REGEXP_LIKE(version, '^[0-9]+\.') THEN 'a version' ELSE 'none' END FROM v$instance;
SELECT COUNT(*) FROM gv$instance;
SELECT CASE WHEN COUNT(*) > 0 THEN 'banner' END FROM v$version;
