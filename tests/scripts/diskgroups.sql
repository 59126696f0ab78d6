-- asm_diskgroups.sql: space by disk group
SELECT name                                            group_name
     , sector_size                                     sector_size
     , block_size                                      block_size
     , allocation_unit_size / 1024 / 1024              au_mb
     , state                                           state
     , type                                            type
     , total_mb                                        total_mb
     , (total_mb - free_mb)                            used_mb
     , ROUND((1 - (free_mb / total_mb)) * 100, 2)      pct_used
     , LPAD(TO_CHAR(total_mb, 'FM999G999'), 10, '.')   padded
FROM v$asm_diskgroup
WHERE total_mb > 0
ORDER BY name
/
