#!/usr/bin/env bash
# Checks the Go library: its form, its rules, and all tests. Needs Go 1.21 or later, which fetches the version of `go.mod`
# by itself; with an older one that version comes through the Go proxy as a module.
# BIFROST_BIN is the server (default: target/debug/bifrost), GO the program. What it fetches is in the cache of Go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"
go="${GO:-$(PATH="$PATH:/usr/local/go/bin" command -v go || true)}"

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi
if [ -z "$go" ]; then
  echo "error: there is no go: install it, with \`sudo apt-get install golang-go\` or alike, or set GO" >&2
  exit 1
fi
# Outside the module, whose version an older program refuses.
minor="$(cd / && "$go" env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')"
if [ "$minor" -lt 21 ]; then
  step "$go" version
  toolchain="golang.org/toolchain@v0.0.1-go1.23.12.$(cd / && "$go" env GOOS)-$(cd / && "$go" env GOARCH)"
  folder="$(cd / && GO111MODULE=on "$go" mod download -json "$toolchain" \
    | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')"
  # Modules have no programs: the files of one may not be run.
  find "$folder/bin" "$folder/pkg/tool" -type f -exec chmod u+wx {} +
  go="$folder/bin/go"
  export GOROOT="$folder"
fi
step "$go" version
gofmt="$("$go" env GOROOT)/bin/gofmt"

unformatted="$("$gofmt" -l .)"
if [ -n "$unformatted" ]; then
  printf '%s\n' "$unformatted" >&2
  echo "error: these files are not as gofmt writes them; run \`gofmt -w veneers/go\`" >&2
  exit 1
fi
step "$go" vet ./...
# The tests of servers are of this run: none comes from the cache.
step "$go" test -count=1 ./...
