#!/usr/bin/env bash
# Installs Triton's compiler into .deps/triton, for candidates written in Triton: out of its wheel (about 190 MB) what
# compiles kernels to PTX (420 MB), without its copies of CUDA's tools. Does nothing when it is already there. To use
# another Triton, set PTXBENCH_TRITON_PYTHON to a Python that has one.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
. "$ROOT/scripts/lib.sh"
. "$ROOT/scripts/versions.env"

mkdir -p "$DEPS"
exec 9>"$DEPS/lock-triton"
if command -v flock >/dev/null; then flock 9; fi
STAMP=$(stamp_of "$TRITON_WHEELS" layout-1)
if is_stamped triton "$STAMP" && [ -e "$DEPS/triton/triton/_C/libtriton.so" ]; then exit 0; fi
say "installing Triton $TRITON_VERSION"
WORK=$(mktemp -d "$DEPS/work.XXXXXX")
download_wheels "$WORK/wheels" "$TRITON_WHEELS"
# Of the wheel: everything in Python, the compiler, and the device library that it links.
"$(python_with_pip)" - "$WORK/wheels" "$WORK/tree" <<'PYTHON'
import pathlib, sys, zipfile
source, target = map(pathlib.Path, sys.argv[1:])
WANTED = ("triton/_C/libtriton.so", "triton/backends/nvidia/lib/libdevice.10.bc")
for wheel in source.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name in WANTED or name.endswith((".py", ".pyi")) or ".dist-info/" in name:
                archive.extract(name, target)
PYTHON
[ -e "$WORK/tree/triton/_C/libtriton.so" ] || die "the wheel of Triton has no libtriton.so"
replace_tree "$WORK/tree" "$DEPS/triton"
rm -rf "$WORK"
set_stamp triton "$STAMP"
