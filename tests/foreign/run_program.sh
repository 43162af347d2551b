#!/usr/bin/env bash
# A CUDA program built on foreign headers. Usage:
#   run_program.sh build NAME SOURCE.cu [nvcc options]     compiles, unless the same has been compiled before
#   run_program.sh run NAME PTXBENCH                       runs it on the emulated GPU
#   run_program.sh check NAME PTXBENCH                     the same under the hazard checker: no error, no warning
# Programs lie in the user's cache under a digest of source, options and versions, so that all checkouts share them;
# .cache/foreign has links to those of this one.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=$ROOT/.cache/foreign
STORE=${XDG_CACHE_HOME:-${HOME:-$ROOT}/.cache}/ptxbench/foreign
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
action=$1 name=$2
shift 2

case $action in
  build)
    source=$ROOT/tests/foreign/$1
    shift
    toolkit=$(cat "$DEPS/toolkit")
    cutlass=$DEPS/foreign/cutlass
    # PTX only: the emulator reads nothing else, and ptxas takes as long again.
    options=(-std=c++17 -cudart shared -gencode arch=compute_90a,code=compute_90a --expt-relaxed-constexpr -DNDEBUG -w
      "-I$cutlass/include" "-I$cutlass/tools/util/include" -lcuda "$@")
    tag=$({ cat "$source" "$DEPS/stamps/foreign-cutlass" 2>/dev/null; "$toolkit/bin/nvcc" --version
      printf '%s\n' "${options[@]//$cutlass/}"; } | sha256sum | cut -d' ' -f1)
    mkdir -p "$CACHE" "$STORE"
    exec 9>"$STORE/lock" # one at a time: up to 5 GB each
    if command -v flock >/dev/null; then flock 9; fi
    if [ ! -x "$STORE/$tag" ]; then
      stubs=$(dirname "$(find -L "$toolkit/lib64/stubs" "$toolkit/targets" -name libcuda.so 2>/dev/null | head -1)")
      "$toolkit/bin/nvcc" "${options[@]}" "-L$stubs" -o "$STORE/$tag.new" "$source"
      mv "$STORE/$tag.new" "$STORE/$tag"
    fi
    ln -sfn "$STORE/$tag" "$CACHE/$name"
    ;;
  run)
    exec "$1" emulate --timeout 300 -- "$CACHE/$name"
    ;;
  check)
    exec "$1" check --timeout 300 -- "$CACHE/$name"
    ;;
  *) echo "unknown action $action (build, run, check)" >&2; exit 2 ;;
esac
