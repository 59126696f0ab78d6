-- Rebalance with phases, in all the ways that runbooks write it
set feedback on
alter diskgroup lab rebalance with balance power 4 wait;
alter diskgroup lab rebalance without compact power 4 wait;
ALTER DISKGROUP LAB REBALANCE WITH RESTORE POWER 4 WAIT;
alter diskgroup lab rebalance power 0;
alter diskgroup lab rebalance modify power 8;
