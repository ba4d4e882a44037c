#!/usr/bin/env bash
# Tests the jar on a version of Java that has shared memory. Part of test.sh: needs the jar and the
# compiled tests in `target`, BIFROST_BIN, and BIFROST_JDK, a JDK of version 22 or newer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
classes=target/test-classes-22
rm -rf "$classes"
path="target/bifrost-veneer-0.1.0.jar:target/test-classes:$(cat target/classpath.txt)"
mapfile -t sources < <(find src/test/java22 -name '*.java')
"$BIFROST_JDK/bin/javac" --release 22 -encoding UTF-8 -Xlint:all -Werror -proc:none -implicit:none -d "$classes" \
  -cp "$path" "${sources[@]}"
selected=()
for name in SharedMemory Address Session Sessions Transports; do
  selected+=(--select-class "org.bifrost.veneer.${name}Test")
done
run() {
  "$BIFROST_JDK/bin/java" -Xmx512m -cp "$classes:$path" "$@"
}
run --enable-native-access=ALL-UNNAMED --illegal-native-access=deny org.junit.platform.console.ConsoleLauncher execute \
  --fail-if-no-tests --disable-banner --disable-ansi-colors --details=summary "${selected[@]}"

# Without access to native functions there is an error that says so.
if BIFROST_URL=shm:///none run --illegal-native-access=deny org.bifrost.veneer.Visitor x 1 2> target/denied.txt; then
  echo "error: shared memory needs no access to native functions" >&2
  exit 1
fi
grep -q -e '--enable-native-access=ALL-UNNAMED' target/denied.txt || { cat target/denied.txt >&2; exit 1; }
