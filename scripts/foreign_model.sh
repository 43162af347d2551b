#!/usr/bin/env bash
# A foreign model server drives trajectories (tests/foreign_model/run.py). Not among the tests: llama-cpp-python is built
# from source, which takes some minutes the first time.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=$ROOT/.deps
cd "$ROOT"
. scripts/lib.sh
. scripts/versions.env
venv=$DEPS/foreign_model
if [ "$(cat "$venv/VERSION" 2>/dev/null)" != "$LLAMA_CPP_PYTHON_VERSION $GGUF_VERSION" ]; then
  say "building llama-cpp-python $LLAMA_CPP_PYTHON_VERSION (some minutes)"
  rm -rf "$venv"
  "$(python_with_pip)" -m venv "$venv" || die "no venv: apt-get install python3-venv"
  CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF" \
    "$venv/bin/pip" install -q "llama-cpp-python[server]==$LLAMA_CPP_PYTHON_VERSION" "gguf==$GGUF_VERSION"
  echo "$LLAMA_CPP_PYTHON_VERSION $GGUF_VERSION" >"$venv/VERSION"
fi
"$venv/bin/python" tests/foreign_model/run.py build/ptxbench
