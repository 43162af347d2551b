#!/usr/bin/env bash
# Installs what building and testing need, and nothing that is already there: Debian packages system-wide, pinned wheels
# in .deps/. A repeated run only looks. Switches (environment):
#   PTXBENCH_FORCE_WHEEL_CUDA=1  ignore installed CUDA toolkits, use the wheels
#   PTXBENCH_DEPS=FOLDER         instead of .deps
#   PTXBENCH_EXTRA_PACKAGES=...  Debian packages to install as well
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
. "$ROOT/scripts/lib.sh"
. "$ROOT/scripts/versions.env"

PACKAGES="cmake ninja-build g++ git make pkg-config ccache clang-format clang-tidy
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libcurl4-openssl-dev libcpp-httplib-dev
  libsqlite3-dev libxxhash-dev libzstd-dev liblz4-dev zlib1g-dev libseccomp-dev libssl-dev libexpected-dev libgtest-dev libgmock-dev
  libbenchmark-dev patchelf python3 python3-venv python3-pip python3-numpy ca-certificates
  ${PTXBENCH_EXTRA_PACKAGES:-}"

missing_packages() {
  local package
  for package in $PACKAGES; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: install these yourself if the build misses them: $(echo $PACKAGES)"
    return
  fi
  local missing as_root=()
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: as root, run: apt-get install $(echo $missing)"
    as_root=(sudo)
  fi
  say "installing Debian packages: $(echo $missing)"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
  local log=$DEPS/apt.log
  # shellcheck disable=SC2086 # a list of names
  "${apt[@]}" update >"$log" 2>&1 && "${apt[@]}" install --no-install-recommends $missing >>"$log" 2>&1 ||
    { cat "$log" >&2; die "apt-get failed, see above"; }
}

install_tvm_ffi() {
  local stamp
  stamp=$(stamp_of "$TVM_FFI_WHEELS" layout-1)
  if is_stamped tvm_ffi "$stamp" && [ -e "$DEPS/tvm_ffi/lib/libtvm_ffi.so" ]; then return; fi
  say "installing TVM-FFI $TVM_FFI_VERSION"
  local work
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  download_wheels "$work/wheels" "$TVM_FFI_WHEELS"
  unpack_wheels "$work/wheels" "$work/unpacked"
  mkdir -p "$work/tree/lib"
  cp -r "$work/unpacked/tvm_ffi/include" "$work/tree/include"
  cp -r "$work"/unpacked/tvm_ffi/3rdparty/dlpack/include/dlpack "$work/tree/include/"
  cp "$work/unpacked/tvm_ffi/lib/libtvm_ffi.so" "$work/tree/lib/"
  cp "$work"/unpacked/apache_tvm_ffi-*.dist-info/licenses/LICENSE "$work/tree/" 2>/dev/null || true
  echo "$TVM_FFI_VERSION" >"$work/tree/VERSION"
  replace_tree "$work/tree" "$DEPS/tvm_ffi"
  rm -rf "$work"
  set_stamp tvm_ffi "$stamp"
}

install_uplot() {
  local stamp work
  stamp=$(stamp_of "$UPLOT_WHEELS" layout-1)
  if is_stamped uplot "$stamp" && [ -e "$DEPS/uplot/uPlot.iife.min.js" ]; then return; fi
  say "installing uPlot $UPLOT_VERSION"
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  download_wheels "$work/wheels" "$UPLOT_WHEELS"
  unpack_wheels "$work/wheels" "$work/unpacked"
  mkdir "$work/tree"
  cp "$work"/unpacked/metaflow_extensions/card_uplot/plugins/cards/uplot/uplot/uPlot.* "$work/tree/"
  replace_tree "$work/tree" "$DEPS/uplot"
  rm -rf "$work"
  set_stamp uplot "$stamp"
}

# The folder of an installed toolkit of the right release, or nothing.
installed_toolkit() {
  [ "${PTXBENCH_FORCE_WHEEL_CUDA:-}" != 1 ] || return 0
  local root
  for root in "${CUDA_HOME:-}" /usr/local/cuda "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /-/-/-)")")")"; do
    [ -n "$root" ] && [ -x "$root/bin/nvcc" ] || continue
    if "$root/bin/nvcc" --version | grep -q "release $CUDA_RELEASE,"; then
      echo "$root"
      return
    fi
    say "note: $root is not CUDA $CUDA_RELEASE, looking further"
  done
}

# A link-time stand-in for the driver library, which no wheel has: every function that cuda.h declares, each answering
# CUDA_ERROR_STUB_LIBRARY (34). Programs load the real libcuda.so.1 (or the emulator's) at run time.
make_driver_stub() {
  local tree=$1
  {
    sed -nE 's/^CUresult CUDAAPI (cu[A-Za-z0-9_]+)\(.*/\1/p' "$tree/include/cuda.h"
    sed -nE 's/^ *# *define +cu[A-Za-z0-9_]+ +(cu[A-Za-z0-9]+(_v[0-9]+)?(_ptsz|_ptds)?)$/\1/p' "$tree/include/cuda.h"
    sed -nE 's/^ *# *define +cu[A-Za-z0-9_]+ +__CUDA_API_PT(SZ|DS)\((cu[A-Za-z0-9_]+)\).*/\2/p' "$tree/include/cuda.h"
  } | sort -u | sed 's/.*/int &(void) { return 34; }/' >"$tree/stub.c"
  [ "$(wc -l <"$tree/stub.c")" -gt 100 ] || die "cuda.h declares fewer driver functions than expected"
  mkdir -p "$tree/lib/stubs"
  gcc -shared -fPIC -w -o "$tree/lib/stubs/libcuda.so" -Wl,-soname,libcuda.so.1 "$tree/stub.c"
  rm "$tree/stub.c"
}

install_wheel_cuda() {
  local stamp
  stamp=$(stamp_of "$CUDA_WHEELS" layout-1)
  if is_stamped cuda "$stamp" && [ -x "$DEPS/cuda/bin/nvcc" ]; then return; fi
  say "no CUDA $CUDA_RELEASE toolkit found: installing one from wheels (about 110 MB)"
  local work tree library
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  download_wheels "$work/wheels" "$CUDA_WHEELS"
  unpack_wheels "$work/wheels" "$work/unpacked"
  tree=$work/unpacked/nvidia/cu13
  rm -rf "$tree/.metadata"
  ln -s lib "$tree/lib64"
  mkdir -p "$tree/targets/x86_64-linux"
  ln -s ../../include "$tree/targets/x86_64-linux/include"
  ln -s ../../lib "$tree/targets/x86_64-linux/lib"
  for library in "$tree"/lib/*.so.*; do
    ln -sf "$(basename "$library")" "${library%.so.*}.so"
  done
  chmod +x "$tree"/bin/* "$tree"/nvvm/bin/*
  make_driver_stub "$tree"
  # nvcc of the fresh tree must work before it replaces anything.
  echo '__global__ void k(float* x) { x[threadIdx.x] += 1; } void f(float* x) { k<<<1, 32>>>(x); }' >"$work/t.cu"
  "$tree/bin/nvcc" -shared -Xcompiler -fPIC -cudart shared -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' \
    -lcuda -o "$work/t.so" "$work/t.cu" || die "the assembled CUDA toolkit does not compile"
  replace_tree "$tree" "$DEPS/cuda"
  rm -rf "$work"
  set_stamp cuda "$stamp"
}

install_cuda_tools() {
  local toolkit=$1 stamp tool missing=0 work
  for tool in nvdisasm cuobjdump; do
    [ -x "$toolkit/bin/$tool" ] || missing=1
  done
  [ $missing -eq 1 ] || return 0
  stamp=$(stamp_of "$CUDA_TOOL_WHEELS" layout-1)
  if is_stamped cuda-tools "$stamp" && [ -x "$DEPS/cuda-tools/bin/nvdisasm" ]; then return; fi
  say "installing nvdisasm and cuobjdump"
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  download_wheels "$work/wheels" "$CUDA_TOOL_WHEELS"
  unpack_wheels "$work/wheels" "$work/unpacked"
  chmod +x "$work"/unpacked/nvidia/cu13/bin/*
  replace_tree "$work/unpacked/nvidia/cu13" "$DEPS/cuda-tools"
  rm -rf "$work"
  set_stamp cuda-tools "$stamp"
}

install_gpu_headers() {
  local stamp work
  stamp=$(stamp_of "$CUDNN_HEADERS_SHA256" "$CUDNN_FRONTEND_HEADERS_SHA256" "$NVRTC_HEADERS_SHA256" "$CUPTI_HEADERS_SHA256" layout-1)
  if is_stamped gpu-headers "$stamp" && [ -e "$DEPS/gpu_headers/include/cudnn_frontend.h" ]; then return; fi
  say "installing headers of cuDNN $CUDNN_VERSION, its frontend $CUDNN_FRONTEND_VERSION, NVRTC and CUPTI"
  work=$(mktemp -d "$DEPS/work.XXXXXX")
  part() { # PACKAGE VERSION WHEEL_SHA256 PREFIX CONTENT_SHA256
    "$(python_with_pip)" "$ROOT/scripts/wheel_part.py" "$1" "$2" "$3" "$4" "$work/tree/include" "$5" || die "could not get the headers of $1"
  }
  part nvidia-cudnn-cu13 "$CUDNN_VERSION" "$CUDNN_WHEEL_SHA256" nvidia/cudnn/include/ "$CUDNN_HEADERS_SHA256"
  part nvidia-cudnn-frontend "$CUDNN_FRONTEND_VERSION" "$CUDNN_FRONTEND_WHEEL_SHA256" include/ "$CUDNN_FRONTEND_HEADERS_SHA256"
  part nvidia-cuda-nvrtc "$NVRTC_VERSION" "$NVRTC_WHEEL_SHA256" nvidia/cu13/include/ "$NVRTC_HEADERS_SHA256"
  part nvidia-cuda-cupti "$CUPTI_VERSION" "$CUPTI_WHEEL_SHA256" nvidia/cu13/include/ "$CUPTI_HEADERS_SHA256"
  replace_tree "$work/tree" "$DEPS/gpu_headers"
  rm -rf "$work"
  set_stamp gpu-headers "$stamp"
}

case "$(uname -sm)" in
  "Linux x86_64") ;;
  *) die "only Linux on x86-64 is supported, this is $(uname -sm)" ;;
esac
mkdir -p "$DEPS"
# Two set-ups at once would trip over each other.
exec 9>"$DEPS/lock"
if command -v flock >/dev/null; then flock 9; fi
install_packages
install_uplot
install_tvm_ffi
TOOLKIT=$(installed_toolkit)
if [ -z "$TOOLKIT" ]; then
  install_wheel_cuda
  TOOLKIT=$DEPS/cuda
fi
install_cuda_tools "$TOOLKIT"
install_gpu_headers
# For the build, which needs the headers of the same toolkit.
[ "$(cat "$DEPS/toolkit" 2>/dev/null)" = "$TOOLKIT" ] || echo "$TOOLKIT" >"$DEPS/toolkit"
