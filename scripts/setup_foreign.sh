#!/usr/bin/env bash
# Fetches the foreign code that the emulator is tried on, into .deps/foreign: published Triton kernels, which Triton's
# compiler (scripts/setup_triton.sh) then compiles to PTX, and CUTLASS's headers. Not part of the normal set-up:
# the tests labelled foreign run it. Usage: setup_foreign.sh [triton-ptx] [cutlass]
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

# .deps/foreign/triton: the compiler that candidates in Triton have too.
link_triton() {
  "$ROOT/scripts/setup_triton.sh"
  mkdir -p "$DEPS/foreign"
  [ -e "$DEPS/foreign/triton" ] || ln -sfn ../triton "$DEPS/foreign/triton"
  is_stamped foreign-triton "$(stamp_of "$TRITON_WHEELS" . layout-1)" || set_stamp foreign-triton "$(stamp_of "$TRITON_WHEELS" . layout-1)"
}

# Triton's extension module is built for this Python.
python_311() {
  local python
  for python in python3.11 /usr/bin/python3 python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  die "no Python 3.11, which Triton's wheel needs: apt-get install python3 (Debian 12)"
}

# .deps/foreign/triton-ptx: the PTX of tests/foreign/generate_triton.py, about a second and a half per kernel and core.
make_triton_ptx() {
  local stamp work
  link_triton
  fetch liger "$FOREIGN_LIGER_WHEELS" .
  fetch conch "$FOREIGN_CONCH_WHEELS" .
  fetch fla "$FOREIGN_FLA_WHEELS" .
  stamp=$(cat "$DEPS"/stamps/foreign-{triton,liger,conch,fla} "$ROOT"/tests/foreign/*.py | sha256sum | cut -d' ' -f1)
  if is_stamped foreign-triton-ptx "$stamp" && [ -d "$DEPS/foreign/triton-ptx" ]; then return; fi
  say "compiling Triton kernels"
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  # .deps/triton has none of the wheel's copies of CUDA's tools.
  TRITON_PTXAS_PATH=$(cat "$DEPS/toolkit")/bin/ptxas \
    "$(python_311)" "$ROOT/tests/foreign/generate_triton.py" "$DEPS/foreign" "$work/ptx" ||
    { rm -rf "$work"; die "Triton did not compile the kernels, see above"; }
  rm -rf "$work/ptx/triton-cache"
  replace_tree "$work/ptx" "$DEPS/foreign/triton-ptx"
  rm -rf "$work"
  set_stamp foreign-triton-ptx "$stamp"
}

mkdir -p "$DEPS"
exec 9>"$DEPS/lock-foreign"
if command -v flock >/dev/null; then flock 9; fi
for what in "${@:-triton-ptx cutlass}"; do
  for name in $what; do
    case $name in
      # To import: PYTHONPATH=.deps/foreign/triton with Python 3.11.
      triton) link_triton ;;
      triton-ptx) make_triton_ptx ;;
      # Headers: .deps/foreign/cutlass/include and .deps/foreign/cutlass/tools/util/include.
      cutlass) fetch cutlass "$FOREIGN_CUTLASS_WHEELS" cutlass_library/source ;;
      *) die "unknown: $name (triton, triton-ptx, cutlass)" ;;
    esac
  done
done
