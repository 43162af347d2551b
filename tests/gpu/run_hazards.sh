#!/usr/bin/env bash
# The planted-fault corpus on a real Hopper GPU, beside compute-sanitizer.
#   run_hazards.sh build DIR        cubins of both variants, their launch descriptions and the runner, into DIR (needs nvcc, no GPU)
#   run_hazards.sh run DIR OUT      results of the correct variants, then the four compute-sanitizer tools on both (needs the GPU)
# TOOLS="none racecheck ...": only these, "none" for the run without a tool.
# OUT/results.csv: file, variant, tool, outcome (clean, reported, timeout), first line of the report.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

build() {
  local dir=$1 file name variant flags
  mkdir -p "$dir"
  for file in "$root"/tests/hazards/*/*.cu; do
    name=$(basename "$(dirname "$file")")-$(basename "$file" .cu)
    awk '/^\/\* launch/ { on = 1; next } on && /\*\// { exit } on' "$file" >"$dir/$name.toml"
    for variant in correct faulty; do
      flags=()
      if [ "$variant" = faulty ]; then
        grep -q FAULTY "$file" || continue
        flags=(-DFAULTY)
      fi
      cp "$dir/$name.toml" "$dir/$name.$variant.toml"
      [ -s "$dir/$name.$variant.cubin" ] ||
        nvcc -cubin -arch=sm_90a -lineinfo "${flags[@]}" -o "$dir/$name.$variant.cubin" "$file" || return 1
    done
    rm "$dir/$name.toml"
  done
  local cuda
  cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  # One file that runs anywhere: fmt as headers, the C++ library inside.
  g++ -std=c++20 -O2 -march=x86-64-v3 -DFMT_HEADER_ONLY -static-libstdc++ -static-libgcc -I "$root/src" \
    -isystem "$cuda/include" -o "$dir/hazard_runner" "$here/hazard_runner.cpp" "$root"/src/launch/{description,elements,toml_reader}.cpp \
    "$root/src/emulator/tensor/numeric_formats.cpp" "$root/src/base/text.cpp" -ldl
}

one() { # DIR TOOL CASE
  local output code
  if [ "$2" = none ]; then
    output=$(timeout 20 "$1/hazard_runner" 20 "$1/$3" 2>&1)
  else
    output=$(timeout 40 compute-sanitizer --tool "$2" --error-exitcode 86 "$1/hazard_runner" 1 "$1/$3" 2>&1)
  fi
  code=$?
  local outcome=clean
  case $code in
    0) ;;
    124 | 137) outcome=timeout ;;
    86) outcome=reported ;;
    *) outcome=$([ "$2" = none ] && echo wrong || echo failed) ;;
  esac
  printf '%s,%s,%s,%s,"%s"\n' "${3%.*}" "${3##*.}" "$2" "$outcome" \
    "$(grep -m1 -E '========= (Error|Warning|Race|Barrier|Invalid|Uninit|Hazard|.*hazard)|expected|gave error' <<<"$output" | tr -d '"' | cut -c1-150)"
}

run() {
  local dir=$1 out=$2 tool cases
  mkdir -p "$out"
  export -f one
  cases=$(cd "$dir" && ls ./*.cubin | sed 's|^\./||; s|\.cubin$||')
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/machine.txt"
  compute-sanitizer --version | tail -1 >>"$out/machine.txt"
  echo "file,variant,tool,outcome,report" >"$out/results.csv"
  for tool in ${TOOLS:-none racecheck memcheck synccheck initcheck}; do
    xargs -P "${JOBS:-12}" -I{} bash -c "one '$dir' $tool {}" <<<"$cases" >>"$out/results.csv"
    echo "$tool: $SECONDS s"
  done
}

case ${1:-} in
  build) build "$2" ;;
  run) run "$2" "$3" ;;
  *) sed -n '2,6p' "$0" >&2; exit 2 ;;
esac
