#!/usr/bin/env bash
# Installs the package into an empty folder, and runs all tests with it. BIFROST_BIN is the server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
target="${BIFROST_TCL_TARGET:-$root/target/tcl}"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi

rm -rf "$target"
mkdir -p "$target/bifrost"
cp bifrost.tcl pkgIndex.tcl "$target/bifrost"
TCLLIBPATH="$target" tclsh tests/all.tcl "$@"
