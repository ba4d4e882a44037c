#!/usr/bin/env bash
# Makes Debian's packages, unpacks them into a folder, and builds and runs projects outside that know nothing but it:
# outside.sh BUILD BIFROST.
set -euo pipefail
build="$1" bin="$2"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$build" && cpack -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -B "$folder/packages" > "$folder/cpack.log") || { cat "$folder/cpack.log" >&2; exit 1; }
library=("$folder"/packages/libbifrost0_*.deb) development=("$folder"/packages/libbifrost-dev_*.deb)

# They are as Debian has its packages: no error, and no warning without a reason (debian/lintian-overrides).
lintian --allow-root --no-cfg --fail-on error,warning --tag-display-limit 0 "${library[0]}" "${development[0]}"

# The library's package has no development files.
dpkg-deb -x "${library[0]}" "$folder/unpacked"
if find "$folder/unpacked" -name '*.h' -o -name '*.a' -o -name '*.so' -o -name '*.pc' | grep .; then
  echo "error: libbifrost0 has development files" >&2
  exit 1
fi
dpkg-deb -x "${development[0]}" "$folder/unpacked"
dpkg-deb -f "${development[0]}" Depends | grep -q '^libbifrost0 (= '
prefix="$folder/unpacked/usr"

# The functions have versions, and nothing else is exported.
nm -D --defined-only "$(find "$prefix" -name libbifrost.so.0)" > "$folder/symbols"
grep -q ' T bf_connect@@BIFROST_0$' "$folder/symbols"
if grep -v -e '@@BIFROST_0$' -e ' A BIFROST_0$' "$folder/symbols"; then
  echo "error: libbifrost.so.0 exports more than its functions" >&2
  exit 1
fi

project="$folder/project"
mkdir "$project"
cp "$root/examples/database/database.theta" "$root/veneers/c/samples/database.c" \
  "$root/veneers/cpp/samples/database.cpp" "$project"
expected="$root/veneers/c/samples/database.txt"
run() {
  BIFROST_BIN="$bin" "$here/serve.sh" "$project/database.theta" unix -- "$here/says.sh" "$expected" "$@"
  echo "ok: ${1#"$folder"/}"
}

# CMake.
cat > "$project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(outside LANGUAGES C CXX)
find_package(Bifrost 0.1 REQUIRED NAMES bifrost Bifrost)
add_executable(database_c database.c)
bifrost_stubs(database_c c database.theta)
target_link_libraries(database_c PRIVATE Bifrost::bifrost)
add_executable(database_cpp database.cpp)
set_target_properties(database_cpp PROPERTIES CXX_STANDARD 17)
bifrost_stubs(database_cpp cpp database.theta)
target_link_libraries(database_cpp PRIVATE Bifrost::static)
END
cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$prefix" -DBIFROST_BIN="$bin" > "$folder/cmake.log"
cmake --build "$project/build" > "$folder/build.log" || { cat "$folder/build.log" >&2; exit 1; }
run "$project/build/database_c"
run "$project/build/database_cpp"

# An installation without the static library, which a build of the target `bifrost` alone has: the rest is there.
mkdir "$folder/shared_only"
cat > "$folder/shared_only/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(shared_only LANGUAGES C CXX)
find_package(Bifrost 0.1 REQUIRED NAMES bifrost Bifrost)
if(NOT TARGET Bifrost::bifrost OR TARGET Bifrost::static)
  message(FATAL_ERROR "the targets are not those that were installed")
endif()
END
mv "$build/libbifrost.a" "$folder/libbifrost.a"
cmake --install "$build" --prefix "$folder/installed" > "$folder/install.log" || { cat "$folder/install.log" >&2; exit 1; }
mv "$folder/libbifrost.a" "$build/libbifrost.a"
cmake -S "$folder/shared_only" -B "$folder/shared_only/build" -DCMAKE_PREFIX_PATH="$folder/installed" \
  -DBIFROST_BIN="$bin" > "$folder/cmake.log"
echo "ok: an installation without libbifrost.a"

# pkg-config.
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name bifrost.pc)")
"$bin" veneer --lang c "$project/database.theta" -o "$project" 2> /dev/null
# The output of pkg-config is options, each a word.
# shellcheck disable=SC2046
cc -std=c11 "$project/database.c" $(pkg-config --cflags --libs bifrost) \
  "-Wl,-rpath,$(pkg-config --variable=libdir bifrost)" -o "$project/database_pkg_config"
run "$project/database_pkg_config"

# The first client of each README.
client() {
  awk -v fence="\`\`\`$1" '$0 == fence && !seen { show = 1; seen = 1; next } /^```/ { show = 0 } show' "$2"
}
client c "$root/veneers/c/README.md" > "$project/client.c"
client cpp "$root/veneers/cpp/README.md" > "$project/client.cpp"
"$bin" veneer --lang cpp "$project/database.theta" -o "$project" 2> /dev/null
echo "eve: 1 visits" > "$project/client.txt"
expected="$project/client.txt"
# shellcheck disable=SC2046
cc -std=c11 "$project/client.c" $(pkg-config --cflags --libs bifrost) \
  "-Wl,-rpath,$(pkg-config --variable=libdir bifrost)" -o "$project/client_c"
# shellcheck disable=SC2046
c++ -std=c++17 "$project/client.cpp" $(pkg-config --cflags --libs bifrost) \
  "-Wl,-rpath,$(pkg-config --variable=libdir bifrost)" -o "$project/client_cpp"
run "$project/client_c"
run "$project/client_cpp"

# Other functions of each README are those of the tests.
for pair in c:veneers/c/tests/services.c cpp:veneers/cpp/tests/services.cpp; do
  language="${pair%%:*}" source="$root/${pair#*:}"
  function=$(awk -v fence="\`\`\`$language" '$0 == fence { block = ""; show = 1; next }
    /^```/ { if (show && block ~ /int64_t count\(/) printf "%s", block; show = 0 } show { block = block $0 "\n" }' \
    "$root/veneers/$language/README.md")
  if [ -z "$function" ] || [[ "$(cat "$source")" != *"$function"* ]]; then
    echo "error: the service in the README of $language is not the one in $source" >&2
    exit 1
  fi
done
