select username, sysdba, sysoper, sysasm from v$pwfile_users order by username;
