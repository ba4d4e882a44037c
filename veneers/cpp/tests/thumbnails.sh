#!/usr/bin/env bash
# The client of examples/thumbnails in C++ against a trader and servers of services.sh, beside the one in Rust:
# thumbnails.sh FOLDER-OF-RUST-PROGRAMS THUMBNAIL. Both print the same and make the same copies. A server that is killed
# costs no picture.
set -euo pipefail
rust="$1/thumbnail" cpp="$2"
folder="$BIFROST_FOLDER"
cd "$folder"
mkdir pictures
for at in $(seq 0 59); do
  { printf 'P6 %d %d 255\n' $((100 + at)) $((400 - at)); head -c $(((100 + at) * (400 - at) * 3)) /dev/zero | tr '\0' "\\1$((at % 8))7"; } \
    > "pictures/picture$at.ppm"
done
echo "no picture" > pictures/none.png
service="trader+unix://$folder/trader?service=Thumbnails"

run() {
  local name="$1" program="$2"
  "$program" --service "$service&prefer=min(number)" --side 64 --at-once 1 -o copies \
    pictures/picture{0,1,2,3,4,5,6,7}.ppm pictures/none.png > "$name.out" 2> "$name.err" && {
    echo "error: $name does not tell a mistake" >&2
    exit 1
  }
  # The error has places in the client's own source.
  sed -i 's/^\(pictures\/none.png: error: \).* signalled /\1/' "$name.out"
  mv copies "copies-$name"
}
run rust "$rust"
run cpp "$cpp"
diff -u rust.out cpp.out
diff -u rust.err cpp.err
diff -r copies-rust copies-cpp
grep -q '^8 by unix:' cpp.err
grep -q '^pictures/none.png: error: no_picture(' cpp.out

# One of two servers is killed while pictures are under way.
"$cpp" --service "$service&prefer=spread" --side 64 -o copies pictures/picture*.ppm > all.out 2> all.err &
client=$!
until [ "$(wc -l < all.out)" -ge 10 ]; do
  kill -0 "$client"
  sleep 0.01
done
kill -KILL "$(cat pid1)"
wait "$client" || { cat all.out all.err >&2; exit 1; }
[ "$(wc -l < all.out)" = 60 ] && [ "$(find copies -name '*.png' | wc -l)" = 60 ]

# Without a trader it says what to do.
if env -u BIFROST_TRADER "$cpp" -o copies pictures/picture0.ppm > none.out 2> none.err; then exit 1; fi
grep -q BIFROST_TRADER none.out
if "$cpp" --sides 3 > none.out 2> none.err; then exit 1; fi
grep -q 'error: --sides is no option' none.err
echo "thumbnails passed"
