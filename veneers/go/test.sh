#!/usr/bin/env bash
# Checks the Go library: its form, its rules, and all tests. Needs Go 1.21 or later, which fetches the version of `go.mod`
# by itself; with an older one that version comes through the Go proxy as a module.
# BIFROST_BIN is the server (default: target/debug/bifrost), GO the program. What it fetches is in the cache of Go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"
target="${CARGO_TARGET_DIR:-$root/target}/veneers/go"
go="${GO:-$(PATH="$PATH:/usr/local/go/bin" command -v go || true)}"

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi
BIFROST_BIN="$(cd "$(dirname "$BIFROST_BIN")" && pwd)/$(basename "$BIFROST_BIN")"
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
mkdir -p "$target"
target="$(cd "$target" && pwd)"
gofmt="$("$go" env GOROOT)/bin/gofmt"

unformatted="$("$gofmt" -l .)"
if [ -n "$unformatted" ]; then
  printf '%s\n' "$unformatted" >&2
  echo "error: these files are not as gofmt writes them; run \`gofmt -w veneers/go\`" >&2
  exit 1
fi
step "$go" vet ./...
# The parts for other systems, and for machines without shared memory.
for system in linux/arm64 windows/amd64; do
  step env GOOS="${system%/*}" GOARCH="${system#*/}" "$go" vet .
done
# Each version of the tool reads the code of some versions of Go.
minor="$("$go" env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')"
if [ "$minor" -ge 26 ]; then
  staticcheck=v0.8.2
elif [ "$minor" -ge 25 ]; then
  staticcheck=v0.7.0
else
  staticcheck=v0.6.1
fi
step env GOBIN="$target" "$go" install "honnef.co/go/tools/cmd/staticcheck@$staticcheck"
step "$target/staticcheck" ./...
(cd packaging && step "$go" vet . && step "$target/staticcheck" .)
# The client of veneers/together.sh.
step "$go" build -o "$target/visitor" ./internal/visitor

# The package, as a proxy has it, in an empty project: with it the client of the README is built, and visits Eve.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
(cd packaging && step "$go" run . "$PWD/.." v0.1.0 "$work/proxy" "$work/client")
(
  cd "$work/client"
  # The version is another one with each run, so the cache of modules is, too.
  export GOPROXY="file://$work/proxy,$("$go" env GOPROXY)" GONOSUMDB=bifrost.dev GOFLAGS="-mod=mod -modcacherw"
  export GOMODCACHE="$work/cache"
  step "$go" mod init example.com/client
  step "$BIFROST_BIN" veneer --lang go "$root/cases/programs/database.theta" -o database
  step "$go" get bifrost.dev/veneer@v0.1.0
  step "$go" build -o client .
)
cat > "$work/visits.sh" << 'EOT'
set -euo pipefail
for visits in 1 2; do
  said="$("$1" "$BIFROST_URL")"
  [ "$said" = "visits: $visits" ] || { echo "error: the client said $said, not visits: $visits" >&2; exit 1; }
done
EOT
step ../c/tests/serve.sh "$root/cases/programs/database.theta" unix -- bash "$work/visits.sh" "$work/client/client"

# The tests of servers are of this run: none comes from the cache. Races are looked for where C is compiled, which the
# tool needs.
race=()
if [ "$("$go" env CGO_ENABLED)" = 1 ] && command -v "$("$go" env CC)" > /dev/null; then
  race=(-race)
fi
step "$go" test -count=1 "${race[@]}" ./...
# The least version that is promised.
if [ "$minor" -gt 23 ]; then
  step env GOTOOLCHAIN=go1.23.12 "$go" test -count=1 ./...
fi
