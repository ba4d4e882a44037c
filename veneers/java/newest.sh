#!/usr/bin/env bash
# Prints the folder of the JDK that has shared memory: BIFROST_JDK, or the newest below
# /usr/lib/jvm.
set -euo pipefail

# The version of a JDK by its release file; 0 if it has none.
version_of() {
  local version
  version="$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>&1)" || version=0
  echo "${version:-0}"
}
if [ -z "${BIFROST_JDK:-}" ]; then
  newest=0
  for jdk in /usr/lib/jvm/*; do
    if [ -x "$jdk/bin/javac" ] && [ "$(version_of "$jdk")" -gt "$newest" ]; then
      newest="$(version_of "$jdk")"
      BIFROST_JDK="$jdk"
    fi
  done
fi
if [ ! -x "${BIFROST_JDK:-}/bin/javac" ] || [ "$(version_of "$BIFROST_JDK")" -lt 22 ]; then
  echo "error: there is no JDK of version 22 or newer, which shared memory needs: install one below /usr/lib/jvm, or" \
    "set BIFROST_JDK to its folder (found: ${BIFROST_JDK:-none})" >&2
  exit 1
fi
echo "$BIFROST_JDK"
