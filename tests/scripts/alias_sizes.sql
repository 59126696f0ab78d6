-- paths of files only, nested: the files of a directory, with sizes
SELECT full_path, to_char(bytes, 'FM999,999,999,999') AS bytes
FROM (
  SELECT '+' || gname || SYS_CONNECT_BY_PATH(aname, '/') full_path, isdir, fnum, gnum
  FROM (SELECT g.name gname, g.group_number gnum, a.name aname, a.parent_index pidx, a.reference_index ridx,
               a.alias_directory isdir, a.file_number fnum
        FROM v$asm_alias a, v$asm_diskgroup g WHERE a.group_number = g.group_number) x
  START WITH MOD(x.pidx, POWER(2, 24)) = 0
  CONNECT BY PRIOR x.ridx = x.pidx
) p, v$asm_file f
WHERE isdir = 'N' AND p.fnum = f.file_number AND p.gnum = f.group_number
ORDER BY f.bytes DESC, full_path;
