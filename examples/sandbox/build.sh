#!/usr/bin/env bash
# Builds the modules of the example: examples/sandbox/build.sh [FOLDER], which gets cost-rust.wasm and cost-c.wasm.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="${1:-$here/modules}"
mkdir -p "$folder"
cargo build --quiet --locked --release --target wasm32-unknown-unknown --manifest-path "$here/guest/Cargo.toml" \
  --target-dir "$folder/target"
cp "$folder/target/wasm32-unknown-unknown/release/sandbox_guest.wasm" "$folder/cost-rust.wasm"
clang --target=wasm32 -std=c11 -O2 -mbulk-memory -nostdlib -Wall -Wextra -Werror -I"$here/../../crates/guest/include" \
  -Wl,--no-entry -Wl,--strip-all -o "$folder/cost-c.wasm" "$here/c/cost.c"
