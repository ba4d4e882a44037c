#!/usr/bin/env bash
# Checks the Java library: its form, its rules, its documents, and all tests. Needs Maven and a JDK of version 17 or later.
# BIFROST_JDK is a JDK of version 22 or newer, for shared memory (default: the newest below /usr/lib/jvm).
# BIFROST_BIN is the server (default: target/debug/bifrost). What Maven fetches is in its own repository (~/.m2).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root="$(cd ../.. && pwd)"
export BIFROST_BIN="${BIFROST_BIN:-$root/target/debug/bifrost}"

step() {
  printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"
  "$@"
}

if [ ! -x "$BIFROST_BIN" ]; then
  echo "error: there is no $BIFROST_BIN: build it with \`cargo build -p bifrost-cli\`, or set BIFROST_BIN" >&2
  exit 1
fi
for program in mvn javac; do
  if ! command -v "$program" >/dev/null; then
    echo "error: there is no $program: install it, with \`sudo apt-get install maven openjdk-17-jdk-headless\` or alike" >&2
    exit 1
  fi
done

BIFROST_JDK="$(./newest.sh)"
export BIFROST_JDK

# Colours are for terminals.
maven=(mvn --batch-mode --no-transfer-progress -Dstyle.color=never)
step "${maven[@]}" spotless:check verify
step ./newer.sh
step ./installed.sh
