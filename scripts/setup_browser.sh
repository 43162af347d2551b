#!/usr/bin/env bash
# Installs Chromium, which the tests of report pages drive (80 MB to download), unless there is one. Where it cannot be
# installed they are skipped, which they say.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${PTXBENCH_DEPS:-$ROOT/.deps}
. "$ROOT/scripts/lib.sh"

for browser in "${PTXBENCH_CHROMIUM:-}" chromium chromium-browser google-chrome; do
  if [ -n "$browser" ] && command -v "$browser" >/dev/null; then exit 0; fi
done
command -v apt-get >/dev/null || { say "note: no Chromium and no apt-get: the tests of report pages in a browser will be skipped"; exit 0; }
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { say "note: no Chromium, not root and no sudo: the tests of report pages in a browser will be skipped"; exit 0; }
  as_root=(sudo)
fi
mkdir -p "$DEPS"
say "installing Chromium for the tests of report pages"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
log=$DEPS/apt-browser.log
"${apt[@]}" install --no-install-recommends chromium fonts-dejavu-core fonts-liberation >"$log" 2>&1 ||
  { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends chromium fonts-dejavu-core fonts-liberation; } >>"$log" 2>&1 ||
  { cat "$log" >&2; die "apt-get failed, see above"; }
