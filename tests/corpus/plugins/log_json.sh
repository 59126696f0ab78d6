#!/bin/bash
# lsdg as JSON, and one value out of it
# usage: ./log_json.sh
plinth --json lsdg data | tr -d ' \n' | grep -o '"Type":"[A-Z]*"'
plinth --json lsdg data | tr -d ' \n' | grep -o '"Name":"[^"]*"'
