#!/usr/bin/env bash
# Runs a program, and compares its output with a file: says.sh EXPECTED PROGRAM...
set -euo pipefail
expected="$1"
shift
diff -u "$expected" <("$@")
