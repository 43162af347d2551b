#!/usr/bin/env bash
# Builds (where needed), checks and times the example GEMM kernels on a machine with a Hopper GPU.
#
#   tests/gpu/run_kernels.sh [--prebuilt DIR] [--out DIR] [--variants "NAME=LIB.so ..."]
#
# --prebuilt DIR  take kernel_runner, the libraries of the candidates and libtvm_ffi.so from DIR instead of building
# --out DIR       where kernels.json, outputs.bin and run.log go; default: a new folder below the system's temporary one
# --variants ...  further candidate libraries, timed beside the examples
#
# Building needs nvcc and the TVM-FFI wheel: set TVM_FFI_DIR to the unpacked package (it holds include/ and lib/).
# Exit code: 0 everything correct, 1 something wrong, 2 not run.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
prebuilt=""
out=""
variants=""
while [ $# -gt 0 ]; do
  case "$1" in
    --prebuilt) prebuilt=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --variants) variants=$2; shift 2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
done
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"

kernels="gemm_simt gemm_mma_cp_async gemm_tma_wgmma gemm_warp_specialized gemm_persistent_cluster"
programs="vector_add sgemm_tiled tma_wgmma_tile"

if [ -n "$prebuilt" ]; then
  bin=$(cd "$prebuilt" && pwd)
  export LD_LIBRARY_PATH="$bin:${LD_LIBRARY_PATH:-}"
else
  : "${TVM_FFI_DIR:?set TVM_FFI_DIR to the unpacked apache-tvm-ffi package}"
  bin=$out/bin
  mkdir -p "$bin"
  export LD_LIBRARY_PATH="$TVM_FFI_DIR/lib:${LD_LIBRARY_PATH:-}"
  common="-std=c++17 -cudart shared -lineinfo -gencode arch=compute_90a,code=[sm_90a,compute_90a]"
  for kernel in $kernels; do
    nvcc -shared -O3 $common --ptxas-options=-v -Xcompiler -fPIC,-fvisibility=hidden -I"$TVM_FFI_DIR/include" \
      "$root/examples/kernels/$kernel.cu" -L"$TVM_FFI_DIR/lib" -ltvm_ffi -o "$bin/$kernel.so" || exit 2
  done
  for program in $programs; do
    nvcc -O3 $common "$root/examples/programs/$program.cu" -o "$bin/$program" || exit 2
  done
  nvcc -O2 $common -I"$TVM_FFI_DIR/include" "$here/kernel_runner.cu" -L"$TVM_FFI_DIR/lib" -ltvm_ffi -lcublas \
    -o "$bin/kernel_runner" || exit 2
fi
# The toolkit's libraries are last: they serve only what nothing else provides.
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:/usr/local/cuda/lib64"

failed=0
{
  date -u +"%Y-%m-%dT%H:%M:%SZ"
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit,temperature.gpu --format=csv,noheader

  for program in $programs; do
    timeout 60 "$bin/$program" || failed=1
  done

  # Each in a process of its own first: a kernel that hangs or faults must not take the others with it. Small N and K
  # that are no multiples of the tiles come on top of the problem's own shape.
  sound=""
  list=""
  for kernel in $kernels; do list="$list $kernel=$bin/$kernel.so"; done
  for entry in $list $variants; do
    if timeout 60 "$bin/kernel_runner" --n 712 --k 328 --check 1,65,300 "$entry" >"$out/small.log" 2>&1 &&
      timeout 60 "$bin/kernel_runner" --check 70,972 "$entry" >>"$out/small.log" 2>&1; then
      sound="$sound $entry"
    else
      echo "== $entry failed on its own (exit $?)"
      cat "$out/small.log"
      failed=1
    fi
  done

  timeout 300 "$bin/kernel_runner" --check 1,70,232,256,972,8192 --time 8192,256 --json "$out/kernels.json" \
    $sound || failed=1
  # A small problem's outputs, as recorded hardware truth for other machines.
  timeout 60 "$bin/kernel_runner" --n 712 --k 328 --check 65 --dump "$out/outputs.bin" $list || failed=1
  nvidia-smi --query-gpu=clocks.sm,power.draw,temperature.gpu --format=csv,noheader
} 2>&1 | tee "$out/run.log"
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
grep -q "all candidates correct" "$out/run.log" || failed=1
! grep -q "failed on its own\|: FAIL" "$out/run.log" || failed=1
exit $failed
