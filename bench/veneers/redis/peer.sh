#!/usr/bin/env bash
# Peers of `bifrost bench veneers`: Redis, and a client of it in Perl, Tcl or Emacs Lisp.
#
#   peer.sh PEER serve PATH     serves at a unix socket, and for redis-tcl at a port of 127.0.0.1 too,
#                               whose number is then in PATH.port; writes `ready`, and ends when its
#                               input does
#   peer.sh PEER client PATH    answers lines `CASE N`
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
peer="$1" order="$2" path="$3"
server=

# Starts the server at a port, which is none if it is 0; false if the server has ended, as it does if the
# port is taken. It is asked at its socket, so that no other server answers.
start() {
  redis-server --port "$1" --bind 127.0.0.1 --unixsocket "$path" --save '' --appendonly no --daemonize no \
    </dev/null >/dev/null 2>&1 &
  server=$!
  until [ "$(redis-cli -s "$path" ping 2>/dev/null)" = PONG ]; do
    kill -0 "$server" 2>/dev/null || return 1
    sleep 0.02
  done
}

serve() {
  trap '[ -z "$server" ] || { kill "$server"; wait "$server"; } 2>/dev/null || true' EXIT
  trap 'exit 1' HUP INT TERM
  if [ "$peer" = redis-tcl ]; then
    local port
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      port=$((20000 + RANDOM % 10000))
      if start "$port"; then break; fi
      port=
    done
    [ -n "$port" ] || exit 1
    echo "$port" > "$path.port"
  else
    start 0 || exit 1
  fi
  echo ready
  # Signals end a `read`.
  while read -r _; do :; done
}

case "$order $peer" in
  "serve "*) serve ;;
  "client redis-perl") exec perl "$here/redis.pl" "$path" ;;
  "client redis-tcl") exec tclsh "$here/redis.tcl" "$(cat "$path.port")" ;;
  # A server that ends in the moment of a write would end Emacs in batch mode.
  "client redis-elisp") trap '' PIPE && exec emacs -Q --batch -l "$here/redis.elc" -f redis-main "$path" ;;
esac
