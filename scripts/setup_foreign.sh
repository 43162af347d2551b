#!/usr/bin/env bash
# Fetches the foreign code that the emulator is tried on, into .deps/foreign: Triton's compiler (a Python package, about
# 190 MB, with its own ptxas) and CUTLASS's headers. Not part of the normal set-up. Usage: setup_foreign.sh [triton] [cutlass]
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
. "$ROOT/scripts/lib.sh"
. "$ROOT/scripts/versions.env"

# fetch NAME REQUIREMENTS FOLDER-INSIDE: .deps/foreign/NAME holds that folder of the unpacked wheel.
fetch() {
  local name=$1 requirements=$2 inside=$3 stamp work
  stamp=$(stamp_of "$requirements" "$inside" layout-1)
  if is_stamped "foreign-$name" "$stamp" && [ -d "$DEPS/foreign/$name" ]; then return; fi
  say "fetching $name"
  mkdir -p "$DEPS/foreign"
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  download_wheels "$work/wheels" "$requirements"
  unpack_wheels "$work/wheels" "$work/unpacked"
  [ -d "$work/unpacked/$inside" ] || die "the wheel of $name has no folder $inside"
  # realpath, because the folder may be "." (the whole wheel), which mv refuses.
  replace_tree "$(realpath "$work/unpacked/$inside")" "$DEPS/foreign/$name"
  rm -rf "$work"
  set_stamp "foreign-$name" "$stamp"
}

mkdir -p "$DEPS"
for what in "${@:-triton cutlass}"; do
  for name in $what; do
    case $name in
      # To import: PYTHONPATH=.deps/foreign/triton with Python 3.11.
      triton) fetch triton "$FOREIGN_TRITON_WHEELS" . ;;
      # Headers: .deps/foreign/cutlass/include and .deps/foreign/cutlass/tools/util/include.
      cutlass) fetch cutlass "$FOREIGN_CUTLASS_WHEELS" cutlass_library/source ;;
      *) die "unknown: $name (triton, cutlass)" ;;
    esac
  done
done
