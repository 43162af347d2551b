#!/usr/bin/env python3
"""Runs clang-tidy over src/ and apps/ and remembers what was clean.

A file is checked again only if its preprocessed text, its command line, the configuration or the tool changes. With
--budget SECONDS no new check starts after that time; what is left over is named and is no failure. Files that differ from
the last commit come first.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cache_folder():
    own = os.environ.get("PTXBENCH_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = pathlib.Path(own) if own else pathlib.Path(xdg or pathlib.Path.home() / ".cache") / "ptxbench"
    folder = base / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def preprocess_command(entry):
    words = shlex.split(entry["command"])
    if "ccache" in os.path.basename(words[0]):
        words = words[1:]
    result = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        elif word == "-c":
            result.append("-E")
        elif word != "-MD":
            result.append(word)
    return result


def key_of(entry, salt):
    """None when the file does not even preprocess; clang-tidy then says why."""
    command = preprocess_command(entry)
    done = subprocess.run(command, cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return None
    digest = hashlib.sha256(salt)
    for part in (" ".join(command).encode(), done.stdout, pathlib.Path(entry["file"]).read_bytes()):
        # A second checkout of the same text shares the cache.
        digest.update(part.replace(entry["directory"].encode(), b"@build").replace(str(ROOT).encode(), b"@root"))
    return digest.hexdigest()


def changed_files():
    names = subprocess.run(["git", "status", "--porcelain", "--no-renames"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return {str(ROOT / line[3:]) for line in names.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="folder with compile_commands.json")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("paths", nargs="*", default=["src", "apps"])
    options = parser.parse_args()

    build = (ROOT / options.build).resolve()
    prefixes = tuple(str(ROOT / path) for path in options.paths)
    entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
    entries = [entry for name, entry in sorted(entries.items()) if name.startswith(prefixes)]
    changed = changed_files()
    entries.sort(key=lambda entry: entry["file"] not in changed)
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    salt = version + (ROOT / ".clang-tidy").read_bytes()
    cache = cache_folder()
    deadline = time.monotonic() + options.budget

    def check(entry):
        if time.monotonic() > deadline:
            return "unchecked", ""
        key = key_of(entry, salt)
        if key and (cache / key).exists():
            return "cached", ""
        if time.monotonic() > deadline:
            return "unchecked", ""
        done = subprocess.run(["clang-tidy", "-quiet", "-p", str(build), entry["file"]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return "failed", done.stdout or done.stderr
        if key:
            (cache / key).touch()
        return "clean", ""

    counts = {"clean": 0, "cached": 0, "failed": 0, "unchecked": 0}
    left_over = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for entry, (result, text) in zip(entries, pool.map(check, entries)):
            counts[result] += 1
            if result == "failed":
                print(text, file=sys.stderr)
            if result == "unchecked":
                left_over.append(os.path.relpath(entry["file"], ROOT))
    print(f"clang-tidy: {counts['clean'] + counts['cached']} files clean ({counts['cached']} unchanged), {counts['failed']} not clean")
    if left_over:
        print(f"clang-tidy: no time left for {len(left_over)} files (make check has no limit): {' '.join(left_over)}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
