#!/bin/bash
# Compares an attribute of several groups by lsattr
# usage: ./attributes.sh au_size DATA FRA ARCH
name=$1
shift
for group in "$@"; do
    asmcmd lsattr -l -G "$group" --suppressheader "$name" | awk -v g="$group" '{ print g, $2 / 1048576 " MB" }'
done
