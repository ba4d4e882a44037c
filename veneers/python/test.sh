#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment, and runs every check and test there.
# BIFROST_BIN is the server, beside which are the programs of examples/thumbnails; PYTHON the interpreter. All files go below the checkout's target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
target="${BIFROST_PYTHON_TARGET:-$root/target/python}"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"
BIFROST_BIN="$(cd "$(dirname "$BIFROST_BIN")" && pwd)/$(basename "$BIFROST_BIN")"
python="${PYTHON:-python3}"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# Pyright is a program of Node, which its package fetches.
export PYRIGHT_PYTHON_CACHE_DIR="$target/pyright" PYRIGHT_PYTHON_IGNORE_WARNINGS=1
unset PYTHONPATH

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi
if [ ! -x "$(dirname "$BIFROST_BIN")/thumbnail-server" ]; then
  echo "error: there is no thumbnail-server beside $BIFROST_BIN: build it with \`cargo build -p thumbnails\`" >&2
  exit 1
fi

# Environments for the tools and for the libraries, installed again when their lists change.
mkdir -p "$target"
install() {
  local list="$1" place="$2"
  if ! cmp -s "$list" "$place/installed.txt"; then
    rm -rf "$place"
    step "$python" -m venv "$place"
    step "$place/bin/python" -m pip install -q --require-hashes -r "$list"
    cp "$list" "$place/installed.txt"
  fi
}
install requirements.txt "$target/tools"
install requirements-libraries.txt "$target/libraries"
tools="$target/tools/bin"

# The wheel, in an environment that has nothing else but what runs tests.
rm -rf "$target/dist" "$target/empty"
step "$tools/python" -m build --wheel --no-isolation --outdir "$target/dist" .
step "$python" -m venv --without-pip "$target/empty"
step "$tools/python" -m pip --python "$target/empty/bin/python" install -q --no-deps "$target"/dist/*.whl
empty="$target/empty/bin/python"
step "$empty" tests/readme.py
# The blocks of what runs tests: a package with its hashes.
awk '/^[a-z]/ { wanted = /^(pytest|pluggy|iniconfig|packaging|pygments)==/ } wanted' requirements.txt > "$target/pytest.txt"
step "$tools/python" -m pip --python "$empty" install -q --no-deps --require-hashes -r "$target/pytest.txt"
libraries="$target/libraries/bin/python"
step "$tools/python" -m pip --python "$libraries" install -q --no-deps --force-reinstall "$target"/dist/*.whl

examples=(../../examples/*/python)
step "$tools/ruff" format --config pyproject.toml --check src tests samples bench "${examples[@]}"
step "$tools/ruff" check --config pyproject.toml src tests samples bench "${examples[@]}"
stubs=(tests/conformance tests/database src/bifrost_veneer/importing/trader samples/* "${examples[@]}")
step "$tools/ruff" format --isolated --check "${stubs[@]/%/\/bifrost_stubs.py}"
step "$tools/ruff" check --isolated --select F,E9,I "${stubs[@]/%/\/bifrost_stubs.py}"
step "$tools/mypy" --cache-dir "$target/mypy" src
step env MYPYPATH=tests "$tools/mypy" --cache-dir "$target/mypy" --python-executable "$empty" tests bench
for sample in samples/* "${examples[@]}"; do
  step env MYPYPATH="$sample" "$tools/mypy" --cache-dir "$target/mypy" --python-executable "$empty" "$sample"/*.py
done
step "$tools/pyright" --pythonpath "$libraries" src tests/conformance samples
# The native library: its wheel, in an environment with nothing else but the package and what runs tests.
native=../../crates/pynative
if ! cmp -s "$native/requirements.txt" "$target/native-tools/installed.txt"; then
  rm -rf "$target/native-tools"
  step "$python" -m venv "$target/native-tools"
  step "$target/native-tools/bin/python" -m pip install -q --require-hashes -r "$native/requirements.txt"
  cp "$native/requirements.txt" "$target/native-tools/installed.txt"
fi
rm -rf "$target/native-dist" "$target/native"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"
step "$target/native-tools/bin/maturin" build --profile dev --locked --manifest-path "$native/Cargo.toml" --out "$target/native-dist"
step "$target/native-tools/bin/abi3audit" --strict --summary "$target"/native-dist/*.whl
step "$python" -m venv --without-pip "$target/native"
with_native="$target/native/bin/python"
step "$tools/python" -m pip --python "$with_native" install -q --no-deps "$target"/dist/*.whl "$target"/native-dist/*.whl
step env BIFROST_NATIVE=1 "$with_native" tests/readme.py
step "$tools/python" -m pip --python "$with_native" install -q --no-deps --require-hashes -r "$target/pytest.txt"

# The tests, without the library and with it at once: there are two cores.
# A shell has jobs in the background ignore Ctrl-C, which tests send; this one may be such a job, too.
env --default-signal=INT BIFROST_NATIVE=1 "$with_native" -m pytest -p no:cacheprovider > "$target/native.log" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true' EXIT
step env --default-signal=INT BIFROST_NATIVE=0 "$empty" -m pytest -p no:cacheprovider
step env --default-signal=INT BIFROST_NATIVE=0 "$libraries" -m pytest -p no:cacheprovider -o addopts=-q tests/libraries
status=0
wait "$beside" || status=$?
trap - EXIT
printf '\n==> [%4ds] the tests with the native library\n' "$SECONDS"
cat "$target/native.log"
exit "$status"
