#!/bin/bash
# The version, and whether the shell ends with 1 for a wrong command
# usage: ./version.sh
# mask: /: (\d+(?:\.\d+)+)/
asmcmd showversion
asmcmd nosuchcommand > /dev/null 2>&1
echo "unknown command: $?"
asmcmd lsdg nothing > /dev/null 2>&1
echo "unknown group: $?"
asmcmd lsdg > /dev/null
echo "lsdg: $?"
