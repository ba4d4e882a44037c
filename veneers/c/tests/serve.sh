#!/usr/bin/env bash
# Runs a program against a server of its own: serve.sh FILE.theta URL ARGUMENTS... -- PROGRAM...
#
# URL is `unix`, `shm`, `tcp`, `ws`, `tls` or `quic`; ARGUMENTS are those of `bifrost serve`. The program gets
# BIFROST_URL, the address, BIFROST_URLS, this and those in ARGUMENTS, and BIFROST_SERVER, the number of the process.
set -euo pipefail
program="$1" way="$2"
shift 2
arguments=()
while [ "$1" != -- ]; do
  arguments+=("$1")
  shift
done
shift
: "${BIFROST_BIN:?the program bifrost}"
folder=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
case "$way" in
  unix) listen=(--listen "unix://$folder/socket") ;;
  shm) listen=(--listen "shm://$folder/shm") ;;
  tcp | ws | tls | quic) listen=(--listen "$way://127.0.0.1:0") ;;
  *)
    echo "serve.sh: no way \`$way\`" >&2
    exit 2
    ;;
esac
case " ${arguments[*]-} " in
  *" --token "*) ;;
  *) case "$way" in tcp | ws | tls | quic) listen+=(--anonymous-loopback) ;; esac ;;
esac
mkfifo "$folder/ready"
# The settings of whoever runs the tests are not those of the server.
unset=()
for name in "${!BIFROST_@}"; do unset+=(-u "$name"); done
env "${unset[@]}" XDG_STATE_HOME="$folder" "$BIFROST_BIN" serve "${listen[@]}" "${arguments[@]}" "$program" \
  > "$folder/ready" 2> "$folder/log" &
server=$!
if ! read -r word urls < "$folder/ready" || [ "$word" != ready ]; then
  cat "$folder/log" >&2
  exit 1
fi
export BIFROST_URL="${urls%% *}" BIFROST_URLS="$urls" BIFROST_SERVER="$server"
"$@"
