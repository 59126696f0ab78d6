-- Files that are written with zeros when they are given space.

ALTER TABLE template ADD COLUMN preformatted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN preformatted INTEGER NOT NULL DEFAULT 0;
