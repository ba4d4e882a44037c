#!/usr/bin/env bash
# The tests of C++ are run with those of C.
exec "$(dirname "${BASH_SOURCE[0]}")/../c/test.sh" "$@"
