#!/usr/bin/env bash
# Gives a measured client a line of each case, and compares its results: measured.sh PROGRAM
set -euo pipefail
cases=(record:45 null:10 pair:45 two:45 batch:45 table:66 raw:10)
results=$(for case in "${cases[@]}"; do echo "${case%:*} 10"; done | "$1" | awk '$1 > 0 { print $2 }' | paste -sd ' ')
expected="${cases[*]#*:}"
if [ "$results" != "$expected" ]; then
  echo "the results are \`$results\`, not \`$expected\`" >&2
  exit 1
fi
