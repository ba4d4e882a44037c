#!/usr/bin/env bash
# Installs the package into an empty folder, and runs all tests with it. BIFROST_BIN is the server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
target="${BIFROST_ELISP_TARGET:-$root/target/elisp}"
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
mkdir -p "$target/checked"
cp bifrost.el bench/bench.el "$target/checked"
# Every warning of the compiler and of checkdoc is an error.
step emacs -Q --batch -L "$target/checked" --eval '(setq byte-compile-error-on-warn t)' -f batch-byte-compile \
  "$target/checked/bifrost.el" "$target/checked/bench.el"
step emacs -Q --batch -l tests/checked.el bifrost.el bench/bench.el
export BIFROST_ELISP_PACKAGES="$target/packages"
step emacs -Q --batch --eval "(progn (require 'package) (setq package-user-dir \"$BIFROST_ELISP_PACKAGES\")
  (package-initialize) (package-install-file \"bifrost.el\"))"
# A server that ends in the moment of a write would end Emacs in batch mode.
trap '' PIPE
# The tests run with what was installed.
installed="$(dirname "$(find "$BIFROST_ELISP_PACKAGES" -name bifrost.elc)")"
step emacs -Q --batch -L "$installed" -l tests/run.el
