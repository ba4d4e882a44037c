#!/usr/bin/env bash
# Builds libbifrost and the veneers of C and C++ below the checkout's `target/`, and runs their tests: with gcc and
# with clang, with sanitizers, under valgrind, and from projects outside that use the installed packages.
# BIFROST_BIN is the program `bifrost` (target/debug/bifrost); BIFROST_THUMBNAILS is the folder of the programs of
# examples/thumbnails, which are made if they are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root="$PWD"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}" CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
target="${CARGO_TARGET_DIR:-$root/target}"
bin="${BIFROST_BIN:-$target/debug/bifrost}"
jobs="${CARGO_BUILD_JOBS}"
thumbnails="${BIFROST_THUMBNAILS:-$target/debug}"
unset BIFROST_BIN BIFROST_THUMBNAILS

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

if [ ! -x "$bin" ]; then
  echo "error: there is no program $bin: \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi

# The compilers, and the tools that look for mistakes of memory.
install() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || [ "${BIFROST_INSTALL:-yes}" = no ]; then
    echo "error: $1 is missing; install it, with \`sudo apt-get install $2\` or alike" >&2
    exit 1
  fi
  step apt-get update -qq
  step apt-get install -y -qq --no-install-recommends "$2"
}
for program in cmake gcc g++ make clang clang-format valgrind pkg-config dpkg-deb:dpkg lintian; do
  command -v "${program%%:*}" >/dev/null || install "${program%%:*}" "${program#*:}"
done
# The runtime of clang's sanitizers is a package of its own. A linker replaces its output, so that is no device.
probe="$(mktemp)"
if ! echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c -o "$probe" - 2>/dev/null; then
  install "the runtime of clang's sanitizers" "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
fi
rm -f "$probe"

if [ ! -x "$thumbnails/thumbnail-server" ] || [ ! -x "$thumbnails/thumbnail" ]; then
  thumbnails="$target/debug"
  step cargo build --locked --quiet -p thumbnails
fi

build="$target/veneers/c"
programs=(-DBIFROST_BIN="$bin" -DBIFROST_THUMBNAILS="$thumbnails" -DCMAKE_BUILD_TYPE=Debug)
mkdir -p "$target/veneers"

# gcc: all tests.
step cmake -S veneers/c -B "$build" "${programs[@]}"
step cmake --build "$build" -j "$jobs"
step ctest --test-dir "$build" -j "$jobs" --output-on-failure

# clang, with the address and undefined-behaviour sanitizers: the tests that run.
step cmake -S veneers/c -B "$build-clang" "${programs[@]}" \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DBIFROST_SANITIZE=address,undefined
step cmake --build "$build-clang" -j "$jobs"
step ctest --test-dir "$build-clang" -j "$jobs" --output-on-failure -E 'refused|allowed|million|_tcp|_ws|format'

# valgrind: no mistake, and nothing that is lost. A million stubs would take minutes.
memcheck=(valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite
  --errors-for-leak-kinds=definite)
conformance="$root/cases/programs/conformance.theta"
for program in conformance_c conformance_cpp async_cpp; do
  BIFROST_BIN="$bin" step veneers/c/tests/serve.sh "$conformance" unix -- "${memcheck[@]}" "$build/$program"
done

# Projects outside: with the installed packages of CMake and of pkg-config, and against the archive.
step veneers/c/tests/outside.sh "$build" "$bin"

echo "the veneers of C and C++ passed in ${SECONDS} s"
