-- Scrubs the lab and waits for the end
set feedback on
alter diskgroup lab scrub power high wait;
alter diskgroup lab scrub file '+LAB/lab.dbf' norepair wait;
