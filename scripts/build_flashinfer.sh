#!/usr/bin/env bash
# Builds the baselines of grouped-query attention on a GPU into .deps/flashinfer: the kernels of FlashInfer that its own
# Python wrappers would choose on Hopper, compiled for sm_90a as TVM-FFI modules that need no Python and no network, so that
# scripts/bundle.sh can carry them. Not part of the normal set-up: without them these problems have no baseline. Takes the
# compiler of the set-up, downloads 15 MB, needs 200 MB of disk for a while and up to 3.6 GB of memory a compiler, and eight
# minutes of processor time (five or so on two free cores, an estimate). Switches (environment):
#   PTXBENCH_JOBS=2      compilers at once
#   PTXBENCH_DEPS=FOLDER instead of .deps
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
. "$ROOT/scripts/lib.sh"
. "$ROOT/scripts/versions.env"
JOBS=${PTXBENCH_JOBS:-2}

toolkit=$(cat "$DEPS/toolkit" 2>/dev/null) && [ -x "$toolkit/bin/nvcc" ] && [ -e "$DEPS/tvm_ffi/lib/libtvm_ffi.so" ] ||
  die "the CUDA compiler or TVM-FFI is not set up: run scripts/setup.sh first"
exec 9>"$DEPS/lock-flashinfer"
if command -v flock >/dev/null; then flock 9; fi
stamp=$(stamp_of "$FLASHINFER_WHEELS" "$TVM_FFI_VERSION" "$("$toolkit/bin/nvcc" --version)" \
  "$(cat "$ROOT/scripts/flashinfer_modules.py")" layout-1)
if is_stamped flashinfer "$stamp" && [ -e "$DEPS/flashinfer/VERSION" ]; then exit 0; fi

work=$(mktemp -d "$DEPS/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching FlashInfer $FLASHINFER_VERSION"
download_wheels "$work/wheels" "$FLASHINFER_WHEELS"
unpack_wheels "$work/wheels" "$work/unpacked"
download_wheels "$work/tool-wheels" "$FLASHINFER_TOOL_WHEELS"
unpack_wheels "$work/tool-wheels" "$work/tools"
data=$work/unpacked/flashinfer/data
PYTHONPATH=$work/tools python3 "$ROOT/scripts/flashinfer_modules.py" "$data/csrc" "$work/modules"

# As FlashInfer compiles them (flashinfer/jit in the wheel), its own copy of CCCL before the toolkit's.
compile() { # SOURCE, as MODULE/FILE.cu
  local source=$work/modules/$1
  "$toolkit/bin/nvcc" -std=c++17 -O3 -DNDEBUG -use_fast_math --expt-relaxed-constexpr -static-global-template-stub=false \
    -Xfatbin=-compress-all -Xcompiler=-fPIC -diag-suppress 20012,177 -gencode=arch=compute_90a,code=sm_90a \
    -DFLASHINFER_ENABLE_F16 -DFLASHINFER_ENABLE_BF16 -DFLASHINFER_ENABLE_FP8_E4M3 -DFLASHINFER_ENABLE_FP8_E5M2 \
    -DFLASHINFER_ENABLE_FP8_E8M0 -DFLASHINFER_ENABLE_FP4_E2M1 -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED \
    -I"$(dirname "$source")" -I"$data/cccl/cub" -I"$data/cccl/libcudacxx/include" -I"$data/cccl/thrust" \
    -isystem "$DEPS/tvm_ffi/include" -isystem "$data/include" -isystem "$data/csrc" -isystem "$data/cutlass/include" \
    -isystem "$data/cutlass/tools/util/include" -isystem "$data/spdlog/include" -c "$source" -o "${source%.cu}.o"
}
export -f compile
export toolkit data work DEPS
say "compiling FlashInfer's modules for sm_90a, $JOBS at a time: some minutes"
# The longest first.
(cd "$work/modules" && printf '%s\n' prefill/*.cu decode*/*.cu) | xargs -P "$JOBS" -I{} bash -c 'set -e; compile {}' ||
  die "FlashInfer does not compile, see above"

mkdir -p "$work/tree"
cp "$DEPS/tvm_ffi/lib/libtvm_ffi.so" "$work/tree/"
for module in "$work"/modules/*/; do
  library=$work/tree/$(basename "$module").so
  # The runtime inside: no other one is found or mistaken for it, and it uses the context that is current. Functions are
  # looked up when they are first called: some, which never are, do not exist.
  "$toolkit/bin/nvcc" -shared -cudart static -gencode=arch=compute_90a,code=sm_90a -o "$library" "$module"*.o -L"$work/tree" -ltvm_ffi \
    -Xlinker -rpath,'$ORIGIN' -Xlinker --exclude-libs,ALL -Xlinker -z,lazy
done
strip --strip-unneeded "$work"/tree/*.so
cp "$work"/unpacked/flashinfer_python-*.dist-info/licenses/LICENSE "$work/tree/"
echo "$FLASHINFER_VERSION" >"$work/tree/VERSION"
replace_tree "$work/tree" "$DEPS/flashinfer"
set_stamp flashinfer "$stamp"
say "$DEPS/flashinfer: $(du -sh "$DEPS/flashinfer" | cut -f1)"
