#!/usr/bin/env bash
# Clients in all languages at once with one server, each over another medium (004 section 6.2): all of them visit the
# same person in transactions, and no visit is lost. To be run after the tests of the client libraries, whose builds it
# uses. BIFROST_BIN is the program `bifrost` (target/debug/bifrost).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
bin="${BIFROST_BIN:-$target/debug/bifrost}"
python="${BIFROST_PYTHON_TARGET:-$PWD/target/python}"
times="${BIFROST_VISITS:-200}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The server, which runs this again with its addresses.
if [ -z "${BIFROST_URLS:-}" ]; then
  listen=(--listen unix://"$folder/socket")
  for url in {tcp,tls,ws,quic}://127.0.0.1:0; do listen+=(--listen "$url"); done
  BIFROST_BIN="$bin" veneers/c/tests/serve.sh examples/database/database.theta shm "${listen[@]}" --anonymous-loopback \
    -- veneers/together.sh
  exit
fi
read -r shm unix tcp tls ws quic <<< "$BIFROST_URLS"
jdk="$(veneers/java/newest.sh)"
for name in "${!BIFROST_@}"; do unset "$name"; done

# NAME URL PROGRAM...: each client is a process of its own, and all run at once.
names=()
pids=()
client() {
  local name="$1" url="$2"
  shift 2
  BIFROST_URL="$url" "$@" "$name" "$times" > "$folder/$name.txt" 2>&1 &
  names+=("$name")
  pids+=("$!")
}
visitor=(env PYTHONPATH=veneers/python/tests)
client rust-quic "$quic" "$target/debug/examples/visitor"
client rust-shm "$shm" "$target/debug/examples/visitor"
client c-tls "$tls" "$target/veneers/c/visitor_c"
client c-quic "$quic" "$target/veneers/c/visitor_c"
client cpp-shm "$shm" "$target/veneers/c/visitor_cpp"
client cpp-quic "$quic" "$target/veneers/c/visitor_cpp"
client python-tcp "$tcp" "${visitor[@]}" BIFROST_NATIVE=0 "$python/empty/bin/python" veneers/python/tests/visitor.py
client native-quic "$quic" "${visitor[@]}" BIFROST_NATIVE=1 "$python/native/bin/python" veneers/python/tests/visitor.py
client typescript-ws "$ws" node veneers/typescript/build/node/tests/visitor.mjs
client typescript-tls "$tls" node veneers/typescript/build/node/tests/visitor.mjs
client go-shm "$shm" "$target/veneers/go/visitor"
client go-tls "$tls" "$target/veneers/go/visitor"
client go-ws "$ws" "$target/veneers/go/visitor"
java=(java -cp veneers/java/target/classes:veneers/java/target/test-classes org.bifrost.veneer.Visitor)
client java-shm "$shm" "$jdk/bin/java" --enable-native-access=ALL-UNNAMED \
  -cp veneers/java/target/bifrost-veneer-0.1.0.jar:veneers/java/target/test-classes org.bifrost.veneer.Visitor
client java-unix "$unix" "${java[@]}"
client java-tls "$tls" "${java[@]}"
client java-ws "$ws" "${java[@]}"
client perl-unix "$unix" perl -Iveneers/perl/lib veneers/perl/t/visitor.pl
client perl-tcp "$tcp" perl -Iveneers/perl/lib veneers/perl/t/visitor.pl
client tcl-tcp "$tcp" tclsh veneers/tcl/tests/visitor.tcl
client elisp-unix "$unix" emacs -Q --batch -L veneers/elisp -l veneers/elisp/tests/visitor.el
client elisp-tcp "$tcp" emacs -Q --batch -L veneers/elisp -l veneers/elisp/tests/visitor.el
# The text form, over a socket and without any library: a batch for each visit.
text() {
  {
    printf '$d := lookup database: DataBase\nflush\n'
    for ((i = 0; i < $2; i++)); do
      printf '$done := transaction\n$e := $d.fetch("ann")\n$e.touch()\nflush\n? $done\n'
    done
    echo bye
  } | "$bin" shell "$BIFROST_URL" > "$folder/shell.txt"
  printf '%s: %s visits, by the text form\n' "$1" "$2"
}
client shell-unix "$unix" text

failed=0
for i in "${!pids[@]}"; do
  if ! wait "${pids[$i]}"; then
    echo "${names[$i]} failed:" >&2
    failed=1
  fi
  cat "$folder/${names[$i]}.txt"
  grep -q "^${names[$i]}: $times visits" "$folder/${names[$i]}.txt" || failed=1
done
expected=$((times * ${#names[@]}))
printf '$d := lookup database: DataBase\n? $d.fetch("ann").visits()\nbye\n' | "$bin" shell "$unix" > "$folder/ann.txt"
if ! grep -q "= $expected\$" "$folder/ann.txt"; then
  echo "Ann should have $expected visits:" >&2
  cat "$folder/ann.txt" >&2
  failed=1
fi
[ "$failed" = 0 ] || exit 1
echo "${#names[@]} clients visited Ann $expected times in ${SECONDS} s"
