select * from (
    select file_number, bytes, round(space/bytes, 1) copies, type, redundancy,
           to_char(to_date(to_char(creation_date), 'YYYY-MM-DD HH24:MI:SS'), 'YYYY') created,
           round(sysdate - creation_date) days
      from v$asm_file where bytes > 0 order by bytes desc, file_number)
 where rownum <= 2;
