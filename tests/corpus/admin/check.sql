-- Checks the lab without repairs, and then one file of it
SET FEEDBACK ON LINESIZE 80
ALTER DISKGROUP lab CHECK NOREPAIR;
ALTER DISKGROUP lab CHECK FILE '+LAB/lab.dbf';
alter diskgroup lab check disk lab_1, lab_3;
