#!/usr/bin/env bash
# Runs the libFuzzer targets of fuzz/ under sanitizers, SECONDS (600) each. What a fuzzer learns stays in build-fuzz/corpus for the
# next run; an input that fails is left in build-fuzz/ and named. Seeds for NAME_fuzz: fuzz/<first part of NAME>_seeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
SECONDS_EACH=${1:-600}
PTXBENCH_EXTRA_PACKAGES=clang scripts/setup.sh
cmake --preset fuzz >/dev/null
cmake --build build-fuzz
cd build-fuzz
found=0
for fuzzer in ./*_fuzz; do
  [ -x "$fuzzer" ] || continue
  found=1
  name=$(basename "$fuzzer" _fuzz)
  mkdir -p "corpus/$name"
  folders=("corpus/$name")
  [ ! -d "../fuzz/${name%%_*}_seeds" ] || folders+=("../fuzz/${name%%_*}_seeds")
  echo "== $name for $SECONDS_EACH s, from ${folders[*]}"
  "$fuzzer" -max_total_time="$SECONDS_EACH" -max_len=65536 -timeout=30 -rss_limit_mb=4096 -print_final_stats=1 "${folders[@]}" 2>&1 |
    grep -vE '^#[0-9]|# Uses:' | tail -n 200
done
[ $found -eq 1 ] || { echo "error: no fuzzer was built" >&2; exit 3; }
