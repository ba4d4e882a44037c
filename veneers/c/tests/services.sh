#!/usr/bin/env bash
# Runs a program against a trader and servers of its own: services.sh FILE.theta NAME:TYPE -- PROGRAM...
#
# There are servers 1 to 3, each with the property `number`, and server 9, whose store stays when it is killed: it is
# started anew then. The program gets BIFROST_FOLDER, in which `trader` is the trader's socket, `server1` that of
# server 1, and `pid1` has the number of its process. BIFROST_SERVER_BIN is the program of servers, if it is another
# one than BIFROST_BIN.
set -euo pipefail
program="$1" export="$2"
shift 3
: "${BIFROST_BIN:?the program bifrost}"
bin="$BIFROST_BIN" server="${BIFROST_SERVER_BIN:-$BIFROST_BIN}"
numbers="${BIFROST_NUMBERS:-1 2 3 9}"
folder=$(mktemp -d)
trader= keeper=
# The settings of whoever runs the tests are not those of the servers.
unset=()
for name in "${!BIFROST_@}"; do unset+=(-u "$name"); done
finish() {
  touch "$folder/over"
  for pid in "$trader" $(cat "$folder"/pid* 2> /dev/null); do kill "$pid" 2> /dev/null || true; done
  for pid in $(cat "$folder"/pid* 2> /dev/null); do kill -CONT "$pid" 2> /dev/null || true; done
  wait 2> /dev/null
  rm -rf "$folder"
}
trap finish EXIT

start() {
  local number="$1"
  shift
  env "${unset[@]}" XDG_STATE_HOME="$folder/state$number" "$server" serve --listen "unix://$folder/server$number" \
    --trader "unix://$folder/trader" --export "$export" --property "number=$number" "$@" "$program" \
    > "$folder/ready$number" 2>> "$folder/log" &
  echo "$!" > "$folder/pid$number"
}
keep() {
  while [ ! -e "$folder/over" ]; do
    rm -f "$folder/server9"
    start 9 --store "$folder/store"
    wait 2> /dev/null
  done
}

env "${unset[@]}" XDG_STATE_HOME="$folder/state" "$bin" trader --listen "unix://$folder/trader" \
  > "$folder/ready" 2> "$folder/log" &
trader=$!
until grep -q '^ready ' "$folder/ready"; do
  kill -0 "$trader" || { cat "$folder/log" >&2; exit 1; }
  sleep 0.05
done
# What the shell says of servers that were killed is no matter of the test.
exec 3>&2 2> "$folder/shell"
count=0
for number in $numbers; do
  if [ "$number" = 9 ]; then keep & else start "$number"; fi
  count=$((count + 1))
done
for _ in $(seq 1 600); do
  listed=$(env "${unset[@]}" "$bin" trader list --trader "unix://$folder/trader" --json | wc -l)
  [ "$listed" = "$count" ] && break
  sleep 0.1
done
if [ "$listed" != "$count" ]; then
  cat "$folder/log" >&3
  echo "services.sh: $listed of $count servers are listed" >&3
  exit 1
fi
export BIFROST_FOLDER="$folder"
"$@" 2>&3
