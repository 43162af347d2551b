#!/usr/bin/env bash
# Model servers that nobody here wrote drive trajectories (tests/foreign_model/run.py). Not among the tests: the proxy is a
# hundred packages, and llama-cpp-python is built from source, which takes ten minutes or more the first time.
#   foreign_model.sh [proxy|llama ...]     default: both
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=$ROOT/.deps
cd "$ROOT"
. scripts/lib.sh
. scripts/versions.env

# environment NAME PACKAGE...: a virtual environment with exactly these.
environment() {
  local venv=$DEPS/foreign_model/$1
  shift
  if [ "$(cat "$venv/VERSION" 2>/dev/null)" != "$*" ]; then
    say "installing $* (some minutes)"
    rm -rf "$venv"
    "$(python_with_pip)" -m venv "$venv" || die "no venv: apt-get install python3-venv"
    CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF" "$venv/bin/pip" install -q "$@"
    echo "$*" >"$venv/VERSION"
  fi
}

[ $# -ne 0 ] || set -- proxy llama
failed=0
for server in "$@"; do
  case $server in
    proxy) environment proxy "litellm[proxy]==$LITELLM_VERSION" ;;
    llama) environment llama "llama-cpp-python[server]==$LLAMA_CPP_PYTHON_VERSION" "gguf==$GGUF_VERSION" ;;
    *) die "unknown server $server: proxy or llama" ;;
  esac
  say "== $server"
  "$DEPS/foreign_model/$server/bin/python" tests/foreign_model/run.py build/ptxbench "$server" || failed=1
done
exit $failed
