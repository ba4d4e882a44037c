#!/usr/bin/env bash
# Runs the fuzz targets, all or those named, each for so many seconds of a core's time (60), which take longer on a
# busy machine: fuzz/run.sh [SECONDS] [TARGET...]
# Starts from fuzz/corpus/TARGET, which stays as it is; finds go to fuzz/target/found/TARGET, crashes to fuzz/artifacts/TARGET.
# `fuzz/run.sh --keep [TARGET...]` merges the finds into the corpus: the fewest and smallest inputs that reach the same code.
# SANITIZER=address watches the memory as well, and is slower. Needs a nightly compiler and `cargo install cargo-fuzz`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Longer inputs say little more, and make the corpus large.
bytes_max=1024
kept_bytes_max=600
keep=no seconds=60
case "${1:-}" in
  --keep) keep=yes; shift ;;
  [0-9]*) seconds=$1; shift ;;
esac
all=$(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -vx bifrost-fuzz)
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets <<< "$all"

host=$(rustc +nightly -vV | sed -n 's/^host: //p')
ticks=$(getconf CLK_TCK)

# The time of cores that a process has used, in seconds; of one that has ended, 0.
cpu_seconds() {
  local stat
  stat=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || stat=""
  # shellcheck disable=SC2086 # Fields.
  set -- $stat
  echo $(((${12:-0} + ${13:-0}) / ticks))
}

for target in "${targets[@]}"; do
  corpus="fuzz/corpus/$target" found="fuzz/target/found/$target" dict=()
  mkdir -p "$corpus" "$found"
  case "$target" in
    theta_text | ir_text) dict=(-dict=fuzz/theta.dict) ;;
    text_form) dict=(-dict=fuzz/text.dict) ;;
  esac
  fuzz=(cargo +nightly fuzz)
  options=(--sanitizer "${SANITIZER:-none}" "$target")
  if [ "$keep" = yes ]; then
    smallest="fuzz/target/smallest/$target"
    rm -rf "$smallest" && mkdir -p "$smallest"
    "${fuzz[@]}" run "${options[@]}" "$smallest" "$corpus" "$found" -- -set_cover_merge=1 -use_counters=0 -max_len="$kept_bytes_max"
    rm -rf "$corpus" && cp -r "$smallest" "$corpus"
  else
    "${fuzz[@]}" build "${options[@]}"
    printf '==> %s, %s s\n' "$target" "$seconds"
    mkdir -p "fuzz/artifacts/$target"
    "fuzz/target/$host/release/$target" "$found" "$corpus" -artifact_prefix="fuzz/artifacts/$target/" \
      -max_len="$bytes_max" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 "${dict[@]}" &
    pid=$!
    # An interrupt ends it with its figures.
    while kill -0 "$pid" 2>/dev/null; do
      # It may end by itself meanwhile.
      [ "$(cpu_seconds "$pid")" -lt "$seconds" ] || { kill -INT "$pid" 2>/dev/null || true; break; }
      sleep 1
    done
    wait "$pid" || { status=$?; [ "$status" = 72 ] || exit "$status"; }
  fi
done
