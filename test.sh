#!/usr/bin/env bash
# Builds everything and runs every check, in the debug profile; stops at the first that fails.
# BIFROST_FUZZ_SECONDS says how long each random test runs (3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
# Half the disk and quicker; nothing is built twice here.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

# Builds and tests take eighteen gigabytes; a full disk would make tests hang.
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$free" -lt 20 ] && [ ! -d "${CARGO_TARGET_DIR:-target}/debug" ]; then
  echo "error: $free GiB are free on this disk, and the build and the tests need 20: free some, or set CARGO_TARGET_DIR" >&2
  exit 1
fi

log="${CARGO_TARGET_DIR:-target}/tests.log"
mkdir -p "${log%/*}"
: > "$log"
tests() { "$@" --no-fail-fast 2>&1 | tee -a "$log"; }

# Tests start a PostgreSQL server of their own. BIFROST_INSTALL=no says that nothing may be installed.
if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || [ "${BIFROST_INSTALL:-yes}" = no ]; then
    echo "error: the programs of a PostgreSQL server are missing; install them, with \`sudo apt-get install postgresql\` or alike" >&2
    exit 1
  fi
  echo "The tests need the programs of a PostgreSQL server, which are missing here: installing the package postgresql."
  echo "Ctrl-C within five seconds prevents it."
  sleep 5
  step apt-get update -qq
  step apt-get install -y -qq --no-install-recommends postgresql
fi

# Go is there if it came as an archive of its makers, and not from the system.
PATH="$PATH:/usr/local/go/bin"
# Tells if a program is there. That of protobuf has the descriptions of its own types beside it, or in another package.
has() {
  command -v "$1" >/dev/null || return
  [ "$1" != protoc ] || [ -e "$(dirname "$(command -v protoc)")/../include/google/protobuf/descriptor.proto" ]
}

# Clients of the text form in the examples are scripts, one over TLS is OpenSSL's, and pages need a browser. The
# packages of the server have a program for musl, and are checked with the tools of Debian and systemd. The bytes of
# messages are read on an emulated machine of the other byte order. The module of an example is in C.
for program in jq python3 openssl chromium musl-gcc:musl-tools dpkg-deb:dpkg lintian strace man:man-db \
  systemd-analyze:systemd etcd:etcd-server protoc:protobuf-compiler,libprotobuf-dev qemu-s390x:qemu-user \
  s390x-linux-gnu-gcc:gcc-s390x-linux-gnu,libc6-dev-s390x-cross go:golang-go mvn:maven javac:openjdk-17-jdk-headless \
  tclsh:tcl emacs:emacs-nox clang wasm-ld:lld; do
  package="${program#*:}"
  package="${package//,/ }"
  program="${program%%:*}"
  if ! has "$program"; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || [ "${BIFROST_INSTALL:-yes}" = no ]; then
      echo "error: $program is missing; install it, with \`sudo apt-get install $package\` or alike" >&2
      exit 1
    fi
    step apt-get update -qq
    # shellcheck disable=SC2086 # Several packages.
    step apt-get install -y -qq --no-install-recommends $package
  fi
done
# The toolchain file names the targets of static programs and of modules; an installation from before has them not yet.
if command -v rustup >/dev/null; then
  step rustup target add "$(uname -m)-unknown-linux-musl" wasm32-unknown-unknown
fi

step cargo fmt --all --check
features=bifrost-cli/etcd,bifrost-cli/wasm
step cargo clippy --locked --workspace --all-targets --features "$features" -- -D warnings
# The fuzz targets are a workspace of their own, and to run them needs a nightly compiler; whether they build does not.
step cargo check --locked --manifest-path fuzz/Cargo.toml --bins
step env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items
# The peers of the client libraries that can be had here; a test measures beside those that are.
step bench/veneers/peers.sh
# Stubs, vectors, tables of the documents, links, floors and commands of the documents are checked by tests.
# Packages are never chosen one by one: other features of the same crates would be built again.
# Traders over etcd are a feature, whose build needs `protoc`; it is on in all tests, so that nothing is built twice.
step tests cargo test --locked --workspace --features "$features"
# The reference implementations of the wire form and of REX, on the machine of the other byte order.
if command -v rustup >/dev/null; then
  step rustup target add s390x-unknown-linux-gnu
  step tests env CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc \
    CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x -L /usr/s390x-linux-gnu" \
    cargo test --locked --target s390x-unknown-linux-gnu -p bifrost-wire -p bifrost-rex
fi
# Without features it is what the README builds.
step cargo check --locked --workspace

# Client libraries of other languages have runners of their own, with the program that was built for the tests.
BIFROST_BIN="$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/debug/bifrost"
export BIFROST_BIN
for veneer in veneers/*/test.sh; do
  [ ! -x "$veneer" ] || step "$veneer"
done
step veneers/together.sh

awk '/^test result:/ { passed += $4; failed += $6; ignored += $8; n++ }
  END { printf "\ntests: %d passed, %d failed, %d ignored, in %d runs\n", passed, failed, ignored, n
        exit failed > 0 || passed == 0 }' "$log"
echo "everything passed in ${SECONDS} s"
