#!/usr/bin/env bash
# Installs the peers of `bifrost bench veneers` below the checkout's `target/peers`: programs of gRPC and Cap'n Proto in
# C++, which are compiled with Debian's libraries, packages of PyPI, npm, Maven Central and Go with
# the versions of the lists here, and clients of Redis.
#
#   peers.sh                  all that can be had here; says what is missing for the others
#   peers.sh PEER...          those: grpc capnp grpcio pycapnp grpc-js capnweb grpc-java grpc-go redis-perl
#                             redis-tcl redis-elisp; fails if one cannot be had
#
# BIFROST_PEERS is another folder. A peer that is installed and whose sources are the same is left as it is.
set -euo pipefail
sources="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
peers="${BIFROST_PEERS:-${CARGO_TARGET_DIR:-$sources/../../target}/peers}"
mkdir -p "$peers/build"
peers="$(cd "$peers" && pwd)"
build="$peers/build"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Says why a peer cannot be had.
lacks() {
  echo "$1: not installed: $2" >&2
  return 1
}

# True if a header is there.
header() {
  g++ -std=c++17 -fsyntax-only -include "$1" -x c++ /dev/null 2>/dev/null
}

# True if all of some programs are there.
programs() {
  for program; do command -v "$program" >/dev/null || return 1; done
}

# Copies sources into a folder of the build; true if they were there and what is made of them is too.
same() {
  local made="$1" folder="$build/$2" all=0
  shift 2
  [ -e "$made" ] || all=1
  mkdir -p "$folder"
  for file; do
    cmp -s "$sources/$file" "$folder/${file##*/}" || all=1
    cp "$sources/$file" "$folder/"
  done
  [ "$all" = 0 ] || rm -f "$made"
  return "$all"
}

# Compiles a program in a folder of the build.
compile() {
  local name="$1"
  shift
  (cd "$build/$name" && g++ -std=c++17 -O2 -Wall -Wextra -pthread -o program "$@" && mv program "$peers/$name")
}

grpc() {
  { programs g++ protoc grpc_cpp_plugin && header grpcpp/grpcpp.h; } ||
    lacks grpc "apt-get install g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev" || return
  same "$peers/grpc" grpc grpc.cpp lines.h calls.proto && return
  (cd "$build/grpc" &&
    protoc --cpp_out=. --grpc_out=. --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" calls.proto) || return
  compile grpc grpc.cpp calls.pb.cc calls.grpc.pb.cc -Wl,--copy-dt-needed-entries -lgrpc++ -lgrpc -lgpr -lprotobuf
}

capnp() {
  { programs g++ capnp capnpc-c++ && header capnp/ez-rpc.h; } ||
    lacks capnp "apt-get install g++ capnproto libcapnp-dev" || return
  same "$peers/capnp" capnp capnp.cpp lines.h calls.capnp && return
  (cd "$build/capnp" && command capnp compile -oc++ calls.capnp) || return
  compile capnp capnp.cpp calls.capnp.c++ -lcapnp-rpc -lcapnp -lkj-async -lkj
}

# Writes the program of a peer that is a script.
script() {
  printf '#!/bin/sh\nexec %s %s "$@"\n' "$2" "${3-$1}" > "$build/$1"
  chmod +x "$build/$1"
  mv "$build/$1" "$peers/$1"
}

python() {
  programs "${PYTHON:-python3}" || lacks "$1" "apt-get install python3 python3-venv" || return
  same "$build/python/calls_pb2_grpc.py" python calls.proto calls.capnp python/peers.py python/requirements.txt || {
    rm -rf "$build/python/venv"
    "${PYTHON:-python3}" -m venv "$build/python/venv" >&2 ||
      lacks "$1" "apt-get install python3 python3-venv" || return
    "$build/python/venv/bin/python" -m pip install -q -r "$build/python/requirements.txt" >&2 ||
      lacks "$1" "pip cannot install bench/veneers/python/requirements.txt" || return
    (cd "$build/python" &&
      venv/bin/python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. calls.proto) || return
  }
  script "$1" "'$build/python/venv/bin/python' '$build/python/peers.py'"
}

node() {
  programs node npm || lacks "$1" "apt-get install nodejs npm" || return
  same "$build/node/installed.json" node calls.proto node/peers.mjs node/package.json node/package-lock.json node/.npmrc || {
    (cd "$build/node" && npm ci --ignore-scripts --no-audit --no-fund --silent >&2) ||
      lacks "$1" "npm cannot install bench/veneers/node/package-lock.json" || return
    cp "$build/node/package-lock.json" "$build/node/installed.json"
  }
  script "$1" "node '$build/node/peers.mjs'"
}

java() {
  programs java javac mvn || lacks "$1" "apt-get install maven openjdk-17-jdk-headless" || return
  same "$build/java/target/libraries" java calls.proto java/pom.xml java/src/main/java/calls/Peer.java || {
    rm -rf "$build/java/target" "$build/java/proto" "$build/java/src"
    mkdir -p "$build/java/proto" "$build/java/src/main/java/calls"
    cp "$build/java/calls.proto" "$build/java/proto/"
    cp "$build/java/Peer.java" "$build/java/src/main/java/calls/"
    (cd "$build/java" && mvn --batch-mode --no-transfer-progress --quiet process-classes >&2) ||
      lacks "$1" "Maven cannot build bench/veneers/java" || return
  }
  script "$1" "java -XX:+UseSerialGC -cp '$build/java/target/classes:$build/java/target/libraries/*' calls.Peer" ""
}

# grpc-go, with the server of its own.
grpc_go() {
  local tool
  tool="$(PATH="$PATH:/usr/local/go/bin" command -v go)"
  { [ -n "$tool" ] && programs protoc; } || lacks grpc-go "apt-get install golang-go protobuf-compiler" || return
  same "$peers/grpc-go" go calls.proto go/main.go go/go.mod go/go.sum && return
  (cd "$build/go" && export GOBIN="$PWD/bin" GOFLAGS=-mod=readonly && mkdir -p bin &&
    "$tool" install google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc &&
    PATH="$GOBIN:$PATH" protoc --go_out=. --go-grpc_out=. --go_opt=module=peers,Mcalls.proto=peers/calls \
      --go-grpc_opt=module=peers,Mcalls.proto=peers/calls calls.proto &&
    "$tool" build -o program . && mv program "$peers/grpc-go") >&2 ||
    lacks grpc-go "Go cannot build bench/veneers/go"
}

# Redis, with a client in Perl, Tcl or Emacs Lisp.
redis() {
  case "$1" in
    redis-perl)
      { programs redis-server redis-cli perl && perl -MRedis -e 1 2>/dev/null; } ||
        lacks "$1" "apt-get install redis-server libredis-perl" || return
      same "$peers/$1" redis redis/peer.sh redis/redis.pl && return
      ;;
    redis-tcl)
      programs redis-server redis-cli tclsh || lacks "$1" "apt-get install redis-server tcl" || return
      same "$peers/$1" redis redis/peer.sh redis/redis.tcl && return
      ;;
    redis-elisp)
      programs redis-server redis-cli emacs || lacks "$1" "apt-get install redis-server emacs-nox" || return
      same "$peers/$1" redis redis/peer.sh redis/redis.el && return
      emacs -Q --batch -f batch-byte-compile "$build/redis/redis.el" >&2 ||
        lacks "$1" "Emacs cannot compile bench/veneers/redis/redis.el" || return
      ;;
  esac
  script "$1" "bash '$build/redis/peer.sh'"
}

install() {
  case "$1" in
    grpc | capnp) "$1" ;;
    grpcio | pycapnp) python "$1" ;;
    grpc-js | capnweb) node "$1" ;;
    grpc-java) java "$1" ;;
    grpc-go) grpc_go ;;
    redis-perl | redis-tcl | redis-elisp) redis "$1" ;;
    *) lacks "$1" "there is no such peer" ;;
  esac
}

failed=0
all="grpc capnp grpcio pycapnp grpc-js capnweb grpc-java grpc-go redis-perl redis-tcl redis-elisp"
for peer in "${@:-$all}"; do
  # Without arguments it is one word with all names.
  for name in $peer; do
    if install "$name"; then echo "$name: installed"; else failed=1; fi
  done
done
[ "$#" = 0 ] || exit "$failed"
