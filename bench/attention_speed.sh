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

# For each D and mask, what differs from the defaults, as in "KEYS=128+STAGES=3".
variants() {
  printf 'd128 full %s\n' default KEYS=128 KEYS=144 KEYS=160 LAZY=1 TURNS=0 OVERLAP=0 DYNAMIC=1 \
    KEYS=96+STAGES=3 CONSUMERS=3+KEYS=112 CONSUMERS=3+KEYS=96 KEYS=128+LAZY=1
  printf 'd128 causal %s\n' default KEYS=144 KEYS=160 KEYS=176 LAZY=1 TURNS=0 OVERLAP=0 DYNAMIC=0 \
    KEYS=96+STAGES=3 CONSUMERS=3+KEYS=112 CONSUMERS=3+KEYS=96
  printf 'd64 full %s\n' default STAGES=3 LAZY=1 POLYNOMIALS=1 LAZY=1+POLYNOMIALS=1 LAZY=1+POLYNOMIALS=2 TURNS=0 \
    OVERLAP=0 KEYS=112 CONSUMERS=2+KEYS=128 CONSUMERS=2+KEYS=176 CONSUMERS=2+KEYS=192 CONSUMERS=2+KEYS=192+LAZY=1
  printf 'd64 causal %s\n' default STAGES=3 LAZY=1 POLYNOMIALS=1 LAZY=1+POLYNOMIALS=1 TURNS=0 OVERLAP=0 DYNAMIC=0 \
    CONSUMERS=2+KEYS=128 CONSUMERS=2+KEYS=128+LAZY=1
}

build() { # D MASK VARIANT
  local dim=$1 mask=$2 variant=$3 kernel=attention_forward flags=()
  [ "$mask" = causal ] && kernel=attention_forward_causal
  if [ "$variant" != default ]; then
    IFS=+ read -ra flags <<<"$variant"
    flags=("${flags[@]/#/-DATTENTION_}")
  fi
  nvcc -O3 -std=c++17 -shared -Xcompiler -fPIC,-fno-gnu-unique -cudart static -lineinfo --ptxas-options=-v \
    -gencode 'arch=compute_90a,code=sm_90a' -I "$root/bench/programs/include" "-DATTENTION_ONLY=${dim#d}" \
    "-DKERNEL=\"../../examples/kernels/$kernel.cu\"" "${flags[@]}" \
    "$root/bench/programs/attention_library.cu" -o "$out/lib/$dim-$mask-$variant.so" \
    >"$out/lib/$dim-$mask-$variant.log" 2>&1 || echo "$dim $mask $variant does not build" >&2
  grep -HE '[1-9][0-9]* bytes spill|C75[0-9]+' "$out/lib/$dim-$mask-$variant.log" | sed 's|.*/||; s/ *in function.*//' >&2
  return 0
}
export -f build
export root out

# The defaults as programs that check themselves, at lengths that are no multiples of anything.
check_sizes() {
  local kernel length dim failed=0
  for kernel in attention_forward attention_forward_causal; do
    nvcc -O3 -std=c++17 -cudart static -lineinfo -gencode 'arch=compute_90a,code=sm_90a' -I "$root/bench/programs/include" \
      "-DKERNEL=\"../../examples/kernels/$kernel.cu\"" "$root/bench/programs/attention.cu" -o "$out/$kernel" &
  done
  wait
  for kernel in attention_forward attention_forward_causal; do
    for dim in 64 128; do
      for length in 1 63 65 192 1000 4097; do timeout 20 "$out/$kernel" 3 50 $length $dim 2 3 || failed=1; done
    done
  done
  return $failed
}

variants | grep -E "${ONLY:-.}" | xargs -P "$(nproc)" -L 1 bash -c 'build "$@"' _
built=$(variants | grep -E "${ONLY:-.}" | tr ' ' '-' | sed "s|.*|$out/lib/&.so|")
check_sizes >"$out/attention_sizes.txt" 2>&1
wrong=$?
grep -hE 'FAIL|rror' "$out/attention_sizes.txt" | grep -v PASS
# shellcheck disable=SC2086
timeout "${LIMIT:-150}" "$python" "$root/bench/attention_speed.py" "$out/attention_speed.json" $built | tee "$out/attention_speed.txt"
timed=$?
[ $timed -eq 0 ] && [ $wrong -eq 0 ] || exit 1
