#!/bin/bash
# State and size of every volume, from the lines of volinfo --all
# usage: ./volinfo.sh
asmcmd volinfo --all | awk -F': ' '
    /Diskgroup Name/ { group = $2 }
    /Volume Name/ { name = $2 }
    /^[ \t]*State/ { state = $2 }
    /Size \(MB\)/ { print group "/" name, state, $2 " MB" }'
