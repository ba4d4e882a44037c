#!/usr/bin/env bash
# The client of examples/packages in C++, over a server with a store that is started anew between the commands:
# packages.sh EXAMPLE SERVE PACKAGES-CLIENT. It prints what the one in Rust prints.
set -euo pipefail
example="$1" serve="$2" client="$3"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ask() { "$serve" "$example/packages.theta" shm --store "$folder/store" -- "$client" "$@"; }
{
  ask import "$example/sample.txt"
  ask closure wget
  ask dependents libgcc-s1
} > "$folder/output"
diff -u "$example/rust/output.txt" "$folder/output"
if ask import "$folder/none" > "$folder/output" 2>&1; then exit 1; fi
grep -q '^error: cannot read ' "$folder/output"
