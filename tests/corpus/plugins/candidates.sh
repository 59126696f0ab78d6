#!/bin/bash
# Lists free disks by lsdsk --candidate, only the names of the files
# usage: ./candidates.sh
asmcmd lsdsk --candidate --suppressheader | sed 's!.*/!!' | sort
