#!/usr/bin/env bash
# Makes build/bundle/ptxbench-VERSION (and .tar.gz): program, test programs and every library they need that is not part of
# any Linux system, found by paths relative to the programs, so that the folder runs wherever it is put on a system with the
# same or a newer C library. Candidates are compiled there with that machine's own CUDA toolkit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# From the system: the C and C++ runtimes, which only grow, and the loader.
SYSTEM='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s)\.so'

command -v patchelf >/dev/null || { echo "error: no patchelf: run scripts/setup.sh" >&2; exit 3; }
cmake --build build
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:STATIC=(.*)/\1/p' build/CMakeCache.txt)
name=ptxbench-$version
dest=build/bundle/$name
rm -rf build/bundle
mkdir -p "$dest"/{bin,lib/system,scripts}

# Programs: the one, and the tests and benchmarks.
programs=()
for file in build/ptxbench build/ptxbench-runner build/ptxbench-executor build/service_fake_worker build/agent_loop_program build/report_synthetic build/*_test build/bench_*; do
  [ -f "$file" ] && [ -x "$file" ] || continue
  cp "$file" "$dest/bin/"
  programs+=("$dest/bin/$(basename "$file")")
done
# Libraries of our own: one folder each, as in the build folder.
[ ! -d build/lib ] || cp -r build/lib/. "$dest/lib/"
[ ! -d build/cuda_shim ] || cp -r build/cuda_shim "$dest/bin/"
mapfile -t own < <(find "$dest/lib" "$dest/bin/cuda_shim" -name '*.so*' -type f 2>/dev/null)

for file in "${programs[@]}"; do
  ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | while read -r library; do
  base=$(basename "$library")
  if [[ $base =~ $SYSTEM ]] || [[ $library == "$PWD"/* ]]; then continue; fi
  cp -L "$library" "$dest/lib/system/$base"
  chmod u+w "$dest/lib/system/$base"
done

strip --strip-unneeded "${programs[@]}" "$dest"/lib/system/*
[ ${#own[@]} -eq 0 ] || strip --strip-unneeded "${own[@]}"
# DT_RPATH rather than DT_RUNPATH: it also serves the libraries of libraries. Only lib/system is in it, as the stand-ins for
# CUDA's libraries must never be found by accident.
for file in "${programs[@]}"; do
  path='$ORIGIN/../lib/system'
  # A test that stands in for a candidate's process needs the library that candidates run against.
  ! patchelf --print-needed "$file" | grep -q '^libtvm_ffi' || path+=':$ORIGIN/../lib/tvm_ffi'
  patchelf --force-rpath --set-rpath "$path" "$file"
done
for file in "$dest"/lib/system/*; do patchelf --force-rpath --set-rpath '$ORIGIN' "$file"; done
# Libraries of our own that candidates load keep to themselves what they need: they have no path to lib/system.

for folder in problems examples knowledge; do
  [ ! -d "$folder" ] || cp -r "$folder" "$dest/"
done
# The headers that candidates are compiled with.
[ ! -d src/candidate/include ] || { mkdir -p "$dest/src/candidate" && cp -r src/candidate/include "$dest/src/candidate/"; }
# What the test programs read: everything in tests/ but their sources.
find tests -type f ! -name '*.cpp' ! -name '*.h' ! -name CMakeLists.txt -print0 | xargs -0 -r cp --parents -t "$dest"
cp README.md LICENSE "$dest/"
# The rules that knowledge packs may cite.
mkdir -p "$dest/docs" && cp docs/hazards.md "$dest/docs/"
cp scripts/versions.env "$dest/scripts/"
if [ -d .deps/tvm_ffi ]; then
  mkdir -p "$dest/.deps"
  cp -r .deps/tvm_ffi "$dest/.deps/"
fi
# FlashInfer's modules, if scripts/build_flashinfer.sh has built them: baselines of grouped-query attention.
if [ -d .deps/flashinfer ]; then
  mkdir -p "$dest/.deps"
  cp -r .deps/flashinfer "$dest/.deps/"
fi
cat >"$dest/run_tests.sh" <<'RUN'
#!/usr/bin/env bash
# Runs the bundled test programs; the last line is the total. Arguments go to each (such as --gtest_filter=...).
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 3
passed=0 failed=0 skipped=0
for program in bin/*_test; do
  text=$("$program" "$@" 2>&1)
  code=$?
  count() { sed -nE "s/^\[  $1 *\] ([0-9]+) tests?.*/\1/p" <<<"$text" | head -n 1; }
  p=$(count PASSED) f=$(count FAILED) s=$(count SKIPPED)
  # A program that died has no summary.
  if [ $code -ne 0 ] && [ "${f:-0}" -eq 0 ]; then f=1; fi
  echo "$(basename "$program"): ${p:-0} passed, ${f:-0} failed, ${s:-0} skipped"
  if [ $code -ne 0 ]; then grep -vE '^\[ +(OK|RUN) +\]' <<<"$text" | tail -n 60; fi
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
RUN
chmod +x "$dest/run_tests.sh"

tar -C build/bundle -czf "build/bundle/$name.tar.gz" "$name"
# The proof that it stands alone: no library of it may come from this machine's own folders.
if ldd "${programs[@]}" | grep -E 'not found' >&2; then
  echo "error: the bundle lacks the libraries above" >&2
  exit 1
fi
echo "$dest: $(du -sh "$dest" | cut -f1), $(basename "$dest").tar.gz: $(du -h "build/bundle/$name.tar.gz" | cut -f1)"
