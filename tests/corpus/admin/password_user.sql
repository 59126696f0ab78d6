-- A user with a password and a role; the view shows the privileges
set feedback off lines 60 pages 20
col username for a12
create user corpus_user identified by "very secret" role operate;
select username, sysdba, sysoper, sysasm from v$pwfile_users where username = 'CORPUS_USER';
drop user corpus_user;
select count(*) from v$pwfile_users where username = 'CORPUS_USER';
