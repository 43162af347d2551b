#!/usr/bin/env bash
# Builds and tests everything; the last line is the total. Options:
#   --full   the long suites too (label "long"), and clang-tidy without a time limit
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FULL=0
[ "${1:-}" != --full ] || FULL=1
# clang-tidy remembers clean files, so the limit only matters on a machine that has not seen them.
TIDY_BUDGET=${TIDY_BUDGET:-180}
PASSED=0 FAILED=0 SKIPPED=0
STARTED=$SECONDS

add() { PASSED=$((PASSED + $1)) FAILED=$((FAILED + $2)) SKIPPED=$((SKIPPED + $3)); }
title() { printf '\n== %s (%d s so far)\n' "$1" $((SECONDS - STARTED)); }

# build PRESET FOLDER: quiet unless it fails.
build() {
  mkdir -p "$2"
  if ! cmake --preset "$1" >"$2/configure.log" 2>&1; then
    cat "$2/configure.log"
    return 1
  fi
  cmake --build "$2" >"$2/build.log" 2>&1 && return
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$2/build.log" | tail -n 200
  return 1
}

# suite TITLE PRESET FOLDER [ctest options]
suite() {
  local name=$1 preset=$2 folder=$3 counts
  shift 3
  title "$name: build"
  if ! build "$preset" "$folder"; then
    echo "$name: the build failed"
    add 0 1 0
    return
  fi
  title "$name: run"
  rm -f "$folder/junit.xml"
  ctest --preset "$preset" --parallel "$(nproc)" --output-junit "$PWD/$folder/junit.xml" "$@" >"$folder/test.log" 2>&1
  local code=$?
  # Everything but the lines of tests that passed.
  grep -vE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed |^ +Start +[0-9]+: |^$' "$folder/test.log"
  if [ ! -s "$folder/junit.xml" ] || ! counts=$(scripts/count_tests.py "$folder/junit.xml"); then
    echo "$name: ctest left no result"
    add 0 1 0
    return
  fi
  # shellcheck disable=SC2086 # three numbers
  add $counts
  # shellcheck disable=SC2086
  set -- $counts
  if [ $code -ne 0 ] && [ "$2" -eq 0 ]; then
    echo "$name: ctest failed with code $code"
    add 0 1 0
  fi
}

# check TITLE COMMAND...: counts as one test.
check() {
  local name=$1
  shift
  title "$name"
  if "$@"; then
    echo "$name: passed"
    add 1 0 0
  else
    echo "$name: FAILED"
    add 0 1 0
  fi
}

LONG=(--label-exclude '^long$')
[ $FULL -eq 0 ] || LONG=()
check "formatting" scripts/format.sh --check
suite "release" release build "${LONG[@]}"
suite "sanitizers" asan-ubsan build-asan-ubsan "${LONG[@]}"
if [ -f build/compile_commands.json ]; then
  if [ $FULL -eq 1 ]; then
    check "clang-tidy" scripts/tidy.py --build build
  else
    check "clang-tidy" scripts/tidy.py --build build --budget "$TIDY_BUDGET"
  fi
fi

printf '\n(%d s)\n' $((SECONDS - STARTED))
TOTAL="$PASSED passed, $FAILED failed"
[ $SKIPPED -eq 0 ] || TOTAL="$TOTAL, $SKIPPED skipped"
echo "$TOTAL"
[ $FAILED -eq 0 ]
