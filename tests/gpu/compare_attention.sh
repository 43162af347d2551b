#!/usr/bin/env bash
# The example attention kernels on a GPU and on the emulated one: are the outputs the same?
#   compare_attention.sh gpu DIR                 on a Hopper GPU (needs nvcc): DIR/*.bin
#   compare_attention.sh emulate PTXBENCH DIR    elsewhere: runs them emulated, with exact tensor cores, and compares with DIR
# The second needs a Python with NumPy (PYTHON, default /usr/bin/python3) and prints for each kernel how many half-words
# of the outputs differ, and by how much at most.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cases=(
  'attention_forward 1 2 330 64' 'attention_forward 1 2 330 128' 'attention_forward 2 1 512 128'
  'attention_forward_causal 1 2 330 64' 'attention_forward_causal 1 2 330 128' 'attention_forward_causal 2 1 512 128'
  'attention_backward 1 2 330 64' 'attention_backward 1 2 330 128' 'attention_backward_causal 1 2 330 64'
  'attention_backward_causal 2 1 512 128'
)
build() { # KERNEL DIR
  local program=attention
  [[ $1 = attention_backward* ]] && program=attention_backward
  [ -x "$2/$1" ] || nvcc -O3 -std=c++17 -cudart shared -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' \
    -I "$root/bench/programs/include" "-DKERNEL=\"../../examples/kernels/$1.cu\"" "$root/bench/programs/$program.cu" -o "$2/$1"
}
run() { # DIR COMMAND...: all cases, each with COMMAND before it
  local dir=$1 line
  shift
  for line in "${cases[@]}"; do
    read -ra words <<<"$line"
    build "${words[0]}" "$dir"
    rm -f "$dir/${line// /_}.bin"
    ATTENTION_OUTPUTS="$dir/${line// /_}.bin" "$@" "$dir/${words[0]}" "${words[@]:1}"
  done
}
case ${1:-} in
  gpu) mkdir -p "$2" && run "$2" env ;;
  emulate)
    own=$(mktemp -d)
    trap 'rm -rf "$own"' EXIT
    run "$own" "$2" emulate --tensor-cores exact -- >"$own/log" 2>&1 || { cat "$own/log" >&2; exit 1; }
    "${PYTHON:-/usr/bin/python3}" - "$own" "$3" <<'PYTHON'
import pathlib, sys, numpy
for mine in sorted(pathlib.Path(sys.argv[1]).glob("*.bin")):
    a, b = (numpy.fromfile(f, numpy.uint16) for f in (mine, pathlib.Path(sys.argv[2]) / mine.name))
    assert a.size == b.size, mine.name
    wide = [(x.astype(numpy.uint32) << 16).view(numpy.float32).astype(float) for x in (a, b)]
    # Halves of fp32 values are compared as bits only.
    other = a != b
    with numpy.errstate(all="ignore"):
        far = numpy.abs(wide[0] - wide[1]) / numpy.maximum(numpy.abs(wide[1]), 1e-3)
    worst = numpy.nanmax(numpy.where(other & (numpy.abs(wide[1]) < 1e4), far, 0))
    print(f"{mine.stem:42s} {other.sum():8d} of {a.size} half-words differ, at most by {worst:.1e}")
PYTHON
    ;;
  *) sed -n '2,7p' "$0" >&2; exit 2 ;;
esac
