#!/usr/bin/env bash
# Formats the C++ sources, or with --check names those that are not formatted and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp'
  else
    find apps bench examples src tests \( -name '*.h' -o -name '*.cpp' \) -print0
  fi
}
if [ "${1:-}" = --check ]; then
  bad=$(sources | xargs -0 -r -n 8 -P "$(nproc)" sh -c \
    'for f; do [ ! -e "$f" ] || clang-format --dry-run -Werror "$f" >/dev/null 2>&1 || echo "$f"; done' sh | sort)
  [ -z "$bad" ] || { printf 'not formatted (make format does it):\n%s\n' "$bad" >&2; exit 1; }
else
  sources | xargs -0 -r -n 8 -P "$(nproc)" sh -c 'for f; do [ ! -e "$f" ] || clang-format -i "$f"; done' sh
fi
