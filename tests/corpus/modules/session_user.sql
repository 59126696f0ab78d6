-- Which privileges the connection has: SYS_CONTEXT, USER and the session's own row
SET HEADING OFF FEEDBACK OFF PAGESIZE 0
SELECT CASE WHEN SYS_CONTEXT('USERENV', 'SESSION_USER') IS NOT NULL THEN 'has a user' ELSE 'has none' END FROM dual;
SELECT CASE WHEN COUNT(*) >= 1 THEN 'sessions' ELSE 'no session' END FROM v$session;
