#!/usr/bin/env bash
# Runs every fuzzer of the sanitizer build (programs named *_fuzz) for the given number of seconds each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
SECONDS_EACH=${1:-600}
cmake --preset asan-ubsan >/dev/null
cmake --build build-asan-ubsan
found=0
for fuzzer in build-asan-ubsan/*_fuzz; do
  [ -x "$fuzzer" ] || continue
  found=1
  echo "== $fuzzer for $SECONDS_EACH s"
  "$fuzzer" --seconds "$SECONDS_EACH"
done
[ $found -eq 1 ] || { echo "error: no fuzzer was built" >&2; exit 3; }
