-- Comments wherever they are allowed, and texts that look like comments
REM this is one
REMARK this; too
/* a block
   over two lines; with a semicolon */
SET PAGESIZE 0 FEEDBACK OFF -
    HEADING OFF
SELECT 'no -- comment' a, -- but this is one; really
       'no /* comment */' b /* and this; too */
  FROM dual -- the end
;
select 'last' -- with a slash below
from dual
/
