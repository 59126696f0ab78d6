-- A result over several pages, with the page number in the title
SET LINESIZE 50 PAGESIZE 9 FEEDBACK ON NEWPAGE 1
TTITLE CENTER 'Numbers' RIGHT 'Page ' FORMAT 99 SQL.PNO
SELECT LEVEL n, LEVEL * LEVEL square FROM dual CONNECT BY LEVEL <= 9;
TTITLE OFF
