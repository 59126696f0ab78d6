-- what files can still take, and whether a failure can be survived
SELECT name,
       CASE type WHEN 'EXTERN' THEN 1 WHEN 'NORMAL' THEN 2 WHEN 'HIGH' THEN 3 END copies,
       free_mb, required_mirror_free_mb, usable_file_mb,
       TRUNC((free_mb - required_mirror_free_mb) / DECODE(type, 'EXTERN', 1, 'NORMAL', 2, 'HIGH', 3)) computed_mb,
       DECODE(SIGN(usable_file_mb), -1, 'NOT SAFE', 'OK') verdict
  FROM v$asm_diskgroup_stat WHERE state IN ('MOUNTED', 'CONNECTED');
