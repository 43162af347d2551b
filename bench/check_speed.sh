#!/usr/bin/env bash
# Time to a race verdict: compute-sanitizer's racecheck on the GPU beside `ptxbench check` on the host's cores, the same
# programs on one machine. Needs a GPU, compute-sanitizer and a bundle (make bundle).
#   check_speed.sh build DIR           the programs, into DIR (needs nvcc, no GPU); programs already there stay
#   check_speed.sh run PTXBENCH DIR OUT [LIMIT]   OUT/check_speed.csv: program, tool, seconds, exit code, last line of output
# LIMIT: seconds for one run of racecheck (150). ONLY: a regular expression, for some of the programs.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

build() {
  local dir=$1 name flags
  mkdir -p "$dir"
  flags=(-O3 -std=c++17 -cudart shared -lineinfo -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]')
  for name in simt mma_cp_async tma_wgmma warp_specialized persistent_cluster; do
    [ -x "$dir/gemm_$name" ] || nvcc "${flags[@]}" -I "$root/bench/programs/include" \
      -DKERNEL="\"../../examples/kernels/gemm_$name.cu\"" "$root/bench/programs/gemm.cu" -o "$dir/gemm_$name" || return 1
  done
  for name in vector_add sgemm_tiled; do
    [ -x "$dir/$name" ] || nvcc "${flags[@]}" "$root/examples/programs/$name.cu" -o "$dir/$name" || return 1
  done
}

timed() { # TOOL PROGRAM-WITH-ARGUMENTS COMMAND...
  local tool=$1 what=$2 begin end code text
  shift 2
  begin=$(date +%s.%N)
  text=$("$@" 2>&1)
  code=$?
  end=$(date +%s.%N)
  printf '%s,%s,%.3f,%d,"%s"\n' "$what" "$tool" "$(awk "BEGIN { print $end - $begin }")" $code \
    "$(grep -E 'RACECHECK SUMMARY|verdict:|PASS|FAIL|ms' <<<"$text" | tail -1 | tr -d '"')"
}

run() {
  local ptxbench=$1 dir=$2 out=$3 limit=${4:-150} line name
  mkdir -p "$out"
  {
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    compute-sanitizer --version | tail -1
    lscpu | sed -nE 's/^Model name: *//p'
    nproc
  } >"$out/machine.txt"
  echo 'program,tool,seconds,exit,output' >"$out/check_speed.csv"
  {
    echo 'sgemm_tiled 1024'
    for name in tma_wgmma warp_specialized persistent_cluster mma_cp_async simt; do echo "gemm_$name 256"; done
    echo 'gemm_warp_specialized 8192'
    echo 'gemm_persistent_cluster 8192'
    echo 'vector_add 1000000'
    (cd "$dir" && ls -d cub_* cutlass_* 2>/dev/null | grep -v '\.tag$')
  } | while read -r line; do
    read -ra words <<<"$line"
    words[0]=$dir/${words[0]}
    [ -x "${words[0]}" ] && [[ $line =~ ${ONLY:-.} ]] || continue
    timed gpu "$line" timeout 60 "${words[@]}"
    for _ in 1 2; do timed check-all-cores "$line" timeout 100 "$ptxbench" check -- "${words[@]}"; done
    for _ in 1 2; do timed check-2-cores "$line" timeout 100 taskset -c 2,3 "$ptxbench" check --threads 2 -- "${words[@]}"; done
    if [ "$line" = 'sgemm_tiled 1024' ]; then
      for _ in 1 2 3; do timed check-1-core "$line" taskset -c 2 "$ptxbench" check --threads 1 -- "${words[@]}"; done
    fi
    timed racecheck "$line" timeout "$limit" compute-sanitizer --tool racecheck "${words[@]}"
  done | tee -a "$out/check_speed.csv"
}

case ${1:-} in
  build) build "$2" ;;
  run) shift && run "$@" ;;
  *) sed -n '2,6p' "$0" >&2; exit 2 ;;
esac
