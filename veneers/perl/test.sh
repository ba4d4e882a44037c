#!/usr/bin/env bash
# Installs the module into an empty folder, and runs all tests with it. BIFROST_BIN is the server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
target="${BIFROST_PERL_TARGET:-$root/target/perl}"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

rm -rf "$target"
mkdir -p "$target"
cp -r lib Makefile.PL "$target"
(
  cd "$target"
  step perl Makefile.PL INSTALL_BASE="$target/installed"
  step make -s install
)
step podchecker lib/Bifrost.pm
step prove "-I$target/installed/lib/perl5" t
