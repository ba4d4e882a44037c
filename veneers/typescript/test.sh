#!/bin/sh
# Checks the TypeScript runtime: types, rules, form, package, and all tests. Needs Node 20 or later and npm.
#
# BIFROST_BIN is the server (default: target/debug/bifrost). BIFROST_EXAMPLES is the folder with `thumbnail` and
# `thumbnail-server` (default: that of the server). CHROMIUM is the browser (default: chromium in the path).
# What it installs is below `node_modules` and `build`.
set -eu

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
BIFROST_BIN=${BIFROST_BIN:-$root/target/debug/bifrost}
export BIFROST_BIN
test -x "$BIFROST_BIN" || { echo "there is no $BIFROST_BIN: cargo build" >&2; exit 1; }

step() { echo "== $*"; }

# The tools are installed again when their list changes.
if ! cmp -s package-lock.json node_modules/installed.json; then
  step install
  npm ci --ignore-scripts --no-audit --no-fund --silent
  cp package-lock.json node_modules/installed.json
fi

step types
npx tsc -p tests
rm -rf dist build
npx tsc -p tsconfig.json

step rules and form
npx eslint .
(cd "$root" && veneers/typescript/node_modules/.bin/eslint -c veneers/typescript/eslint.config.js 'examples/*/typescript/*.ts')
npx prettier --check --log-level warn src '!src/service/trader' tests/*.ts samples/*/main.ts bench bundle.mjs eslint.config.js
npx prettier --config .prettierrc.json --check --log-level warn '../../examples/*/typescript/!(bifrost_stubs*).ts'
# Stubs have the form that prettier gives them without settings.
npx prettier --no-config --check --log-level warn 'tests/stubs/*/*.ts' 'samples/*/bifrost_stubs*.ts' src/service/trader \
  '../../examples/*/typescript/bifrost_stubs*.ts'

step package
mkdir -p build/package
npm pack --silent --pack-destination build/package
npx publint --strict
npx attw --profile esm-only build/package/bifrost-veneer-*.tgz > build/attw.txt || { cat build/attw.txt; exit 1; }

step tests
node bundle.mjs node tests/*.test.ts tests/visitor.ts samples/*/main.ts bench/*.ts
node bundle.mjs browser tests/page.ts
npm run --silent examples
node --expose-gc --test --test-concurrency=2 --test-reporter=dot build/node/tests/*.test.mjs

step "the package in an empty folder"
node tests/installed.mjs

step done
