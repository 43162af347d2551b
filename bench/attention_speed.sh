#!/usr/bin/env bash
# Variants of the example attention kernels beside PyTorch's cuDNN attention, on a Hopper GPU, offline.
#   bench/attention_speed.sh [OUT]     OUT/attention_speed.txt and .json (OUT: a new temporary folder)
# Needs nvcc and a Python with PyTorch (PYTHON, default python3). ONLY: a regular expression on the names of variants.
# Exit code: 0 all right, 1 a variant is wrong or does not build, 2 not run.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$(mktemp -d)}
python=${PYTHON:-python3}
mkdir -p "$out/lib"
command -v nvcc >/dev/null || { echo 'nvcc is not on PATH' >&2; exit 2; }
"$python" -c 'import torch; assert torch.cuda.is_available()' || { echo "$python has no PyTorch with a GPU" >&2; exit 2; }

# For each direction, D and mask, what differs from the defaults, as in "KEYS=128+STAGES=3".
variants() {
  printf 'forward d128 full %s\n' default LAZY=0 KEYS=144 KEYS=160 KEYS=176 TURNS=0 OVERLAP=0 DYNAMIC=1 CONSUMERS=3+KEYS=112
  printf 'forward d128 causal %s\n' default LAZY=0 KEYS=144 TURNS=0 OVERLAP=0 DYNAMIC=0 CONSUMERS=3+KEYS=112
  printf 'forward d64 full %s\n' default LAZY=0 STAGES=3 POLYNOMIALS=1 TURNS=0 OVERLAP=0 CONSUMERS=2+KEYS=192
  printf 'forward d64 causal %s\n' default LAZY=0 STAGES=3 POLYNOMIALS=1 TURNS=0 DYNAMIC=0 CONSUMERS=2+KEYS=128
  for mask in full causal; do
    printf "backward d128 $mask %s\n" default KEYS=80 KEYS=96
    printf "backward d64 $mask %s\n" default QUERIES=64 KEYS=96
  done
}

build() { # DIRECTION D MASK VARIANT
  local dim=$2 mask=$3 variant=$4 name=$1-$2-$3-$4 kernel=attention_$1 flags=()
  [ "$mask" = causal ] && kernel+=_causal
  if [ "$variant" != default ]; then
    IFS=+ read -ra flags <<<"$variant"
    flags=("${flags[@]/#/-DATTENTION_}")
  fi
  [ "$1" = backward ] && flags+=(-DATTENTION_BACKWARD)
  nvcc -O3 -std=c++17 -shared -Xcompiler -fPIC,-fno-gnu-unique -cudart static -lineinfo --ptxas-options=-v \
    -gencode 'arch=compute_90a,code=sm_90a' -I "$root/bench/programs/include" "-DATTENTION_ONLY=${dim#d}" \
    "-DKERNEL=\"../../examples/kernels/$kernel.cu\"" "${flags[@]}" \
    "$root/bench/programs/attention_library.cu" -o "$out/lib/$name.so" \
    >"$out/lib/$name.log" 2>&1 || echo "$name does not build" >&2
  grep -HE '[1-9][0-9]* bytes spill|C75[0-9]+' "$out/lib/$name.log" | sed 's|.*/||; s/ *in function.*//' >&2
  return 0
}
export -f build
export root out

# The defaults as programs that check themselves, at lengths that are no multiples of anything.
check_kernel() { # KERNEL PROGRAM LENGTHS
  local length dim
  nvcc -O3 -std=c++17 -cudart static -lineinfo -gencode 'arch=compute_90a,code=sm_90a' \
    -I "$root/bench/programs/include" "-DKERNEL=\"../../examples/kernels/$1.cu\"" "$root/bench/programs/$2.cu" \
    -o "$out/$1" || { echo "FAIL: $1 does not build"; return; }
  for dim in 64 128; do
    for length in $3; do
      timeout 30 "$out/$1" 3 50 "$length" $dim || echo "FAIL: $1 S=$length D=$dim, exit code $?"
    done
  done
}
check_sizes() {
  local kernel
  for kernel in forward forward_causal; do check_kernel attention_$kernel attention '1 63 192 1000 4097' & done
  for kernel in backward backward_causal; do check_kernel attention_$kernel attention_backward '1 63 577' & done
  wait
}

variants | grep -E "${ONLY:-.}" | xargs -P "$(nproc)" -L 1 bash -c 'build "$@"' _
built=$(variants | grep -E "${ONLY:-.}" | tr ' ' '-' | sed "s|.*|$out/lib/&.so|")
check_sizes >"$out/attention_sizes.txt" 2>&1
wrong=0
grep FAIL "$out/attention_sizes.txt" && wrong=1
# shellcheck disable=SC2086
timeout "${LIMIT:-120}" "$python" "$root/bench/attention_speed.py" "$out/attention_speed.json" $built |
  tee "$out/attention_speed.txt"
timed=$?
[ $timed -eq 0 ] && [ $wrong -eq 0 ] || exit 1
