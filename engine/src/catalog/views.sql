-- Views for internal use: those of `columns/` select from them, and so do queries that the instance
-- sends for statements of certain forms.

-- Extents that do not have all their mirrors on ONLINE disks; of a shared extent `file` is 0.
CREATE TEMP VIEW missing_mirror AS
SELECT * FROM (
    SELECT e.id AS extent, e.file AS file, iif(g.mirrors = 2, max(e.mirrors, 2), g.mirrors) AS wanted,
        iif(e.d0 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0)
        + iif(e.d1 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0)
        + iif(e.d2 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0) AS mirrors_left
    FROM main.extent AS e,
        (SELECT CASE redundancy WHEN 'EXTERN' THEN 1 WHEN 'NORMAL' THEN 2 ELSE 3 END AS mirrors FROM temp.live_group) AS g
) WHERE mirrors_left < wanted;

-- The same files, for statements that read only their types: a walk along the index.
CREATE TEMP VIEW file_types AS
SELECT coalesce(f.type, 'DATAFILE') AS type FROM main.file AS f WHERE f.kind = 32768;

-- The same names, for statements that only count them.
CREATE TEMP VIEW entries AS
SELECT 1 AS entry FROM main.entry;

-- Mirrors of extents: the extent, the number of the mirror, its place.
CREATE TEMP VIEW extent_mirror AS
SELECT id, file, number, 0 AS mirror, d0 AS disk, a0 AS au, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL) AS mirrors
FROM main.extent WHERE d0 IS NOT NULL
UNION ALL
SELECT id, file, number, 1, d1, a1, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL)
FROM main.extent WHERE d1 IS NOT NULL
UNION ALL
SELECT id, file, number, 2, d2, a2, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL)
FROM main.extent WHERE d2 IS NOT NULL;

-- AUs that are taken: by files, according to the catalog; the rest according to the membership and
-- the layout.
CREATE TEMP VIEW taken_unit AS
SELECT disk, au, file, number, iif(file = 0, 'SHARED', 'FILE') AS what, mirror FROM temp.extent_mirror
UNION ALL
SELECT disk, au, CASE what WHEN 'CATALOG' THEN 1 WHEN 'LOG' THEN 3 ELSE 0 END, number, what, 0 FROM temp.live_unit;
