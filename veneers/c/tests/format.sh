#!/usr/bin/env bash
# The generated headers have the form that clang-format gives them, and so has what is written by hand:
# format.sh HEADER...
set -euo pipefail
veneers="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
status=0
for header in "$@"; do
  clang-format --style="file:$veneers/clang-format.yaml" "$header" | diff -u "$header" - || status=1
done
echo "$# generated headers"
cd "$veneers"
# The header of the C ABI is cbindgen's, and the operators are a table.
files=$(find c cpp ../examples/packages/cpp ../examples/thumbnails/cpp \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' \) \
  -not -path '*/stubs/*' -not -name abi.h -not -name operators.h)
for file in $files; do
  clang-format --style="file:$veneers/.clang-format" "$file" | diff -u "$file" - || status=1
done
exit "$status"
