#!/usr/bin/env bash
# cached_nvcc.sh OUTPUT INPUT... -- NVCC OPTIONS...: compiles, unless the same has been compiled before by any checkout.
# What is made is kept in the user's cache under a digest of the inputs, the options and the compiler's version.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
STORE=${XDG_CACHE_HOME:-${HOME:-$ROOT}/.cache}/ptxbench/nvcc
output=$1
shift
inputs=()
while [ "$1" != -- ]; do inputs+=("$1"); shift; done
shift
options=("${@:2}")
tag=$({ for one in "${inputs[@]}"; do echo "== ${one#"$ROOT"}"; cat "$one"; done; "$1" --version
  printf '%s\n' "${options[@]//$ROOT/}"; } | sha256sum | cut -d' ' -f1)
mkdir -p "$STORE"
if [ ! -e "$STORE/$tag" ]; then
  "$@" -o "$STORE/$tag.$$"
  mv "$STORE/$tag.$$" "$STORE/$tag"
fi
cp "$STORE/$tag" "$output"
