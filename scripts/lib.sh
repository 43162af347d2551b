# Functions shared by the set-up scripts; sourced, with ROOT and DEPS set.

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 3; }

# The first Python that can download wheels.
python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  die "no Python with pip: apt-get install python3-pip"
}

# download_wheels FOLDER REQUIREMENTS: exactly the pinned files, checked against their digests. The files are only
# unpacked, never run by this Python, so its own version does not matter.
download_wheels() {
  local folder=$1 requirements=$2 list
  mkdir -p "$folder"
  list=$(mktemp)
  printf '%s\n' "$requirements" | sed '/^ *$/d' >"$list"
  local ok=0
  "$(python_with_pip)" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux_2_12_x86_64 --platform manylinux2010_x86_64 --platform any \
    --dest "$folder" --requirement "$list" || ok=1
  rm -f "$list"
  [ $ok -eq 0 ] || die "could not download the pinned wheels (is the Python package index reachable?)"
}

# unpack_wheels FOLDER TARGET: the content of every wheel in FOLDER, with its permissions.
unpack_wheels() {
  "$(python_with_pip)" - "$1" "$2" <<'PYTHON'
import pathlib, sys, zipfile
source, target = map(pathlib.Path, sys.argv[1:])
for wheel in sorted(source.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = pathlib.Path(archive.extract(entry, target))
            mode = entry.external_attr >> 16
            if mode and path.is_file():
                path.chmod(mode & 0o777 | 0o600)
PYTHON
}

# replace_tree NEW OLD: swaps a finished folder in; a broken run never leaves half of one.
replace_tree() {
  rm -rf "$2.old"
  if [ -e "$2" ]; then mv "$2" "$2.old"; fi
  mv "$1" "$2"
  rm -rf "$2.old"
}

stamp_of() { printf '%s\0' "$@" | sha256sum | cut -d' ' -f1; }
# is_stamped NAME VALUE / set_stamp NAME VALUE
is_stamped() { [ "$(cat "$DEPS/stamps/$1" 2>/dev/null)" = "$2" ]; }
set_stamp() { mkdir -p "$DEPS/stamps" && echo "$2" >"$DEPS/stamps/$1"; }
