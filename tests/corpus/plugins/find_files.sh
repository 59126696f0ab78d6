#!/bin/bash
# Files of a type by asmcmd find, counted
# usage: ./find_files.sh
asmcmd find --type ARCHIVELOG +fra '*'
asmcmd find --type ARCHIVELOG +fra '%' | wc -l | tr -d ' '
