#!/usr/bin/env python3
"""Extracts some files of a wheel without downloading the rest: headers out of libraries of hundreds of megabytes.

  wheel_part.py PACKAGE VERSION WHEEL_SHA256 PREFIX FOLDER CONTENT_SHA256

The wheel is found on the package index that pip uses by its digest, as it cannot be checked as a whole; what comes out is
checked against CONTENT_SHA256, the digest of all extracted names and contents.
"""
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile


def index_url():
    configured = os.environ.get("PIP_INDEX_URL")
    if not configured:
        shown = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
        configured = shown.stdout.strip()
    if not configured:
        from pip._internal.models.index import PyPI
        configured = PyPI.simple_url
    return configured.rstrip("/") + "/"


def get(url, headers):
    for attempt in range(4):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120) as reply:
                return reply.read(), reply.headers
        except OSError:
            if attempt == 3:
                raise
            time.sleep(2 ** attempt)


class Remote(io.RawIOBase):
    """A file on a server that answers ranges."""

    def __init__(self, url, size):
        self.url, self.size, self.at = url, size, 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer):
        end = min(self.at + len(buffer), self.size)
        if self.at >= end:
            return 0
        data, _ = get(self.url, {"Range": f"bytes={self.at}-{end - 1}"})
        if len(data) != end - self.at:
            raise OSError("the package index does not answer ranges")
        buffer[:len(data)] = data
        self.at = end
        return len(data)


def main(package, version, wheel_digest, prefix, folder, content_digest):
    page, _ = get(urllib.parse.urljoin(index_url(), package + "/"), {"Accept": "application/vnd.pypi.simple.v1+json"})
    found = [one for one in json.loads(page)["files"] if one["hashes"].get("sha256") == wheel_digest]
    if not found:
        sys.exit(f"{package} {version}: no wheel with the pinned digest on the package index")
    url = urllib.parse.urljoin(index_url() + package + "/", found[0]["url"])
    size = found[0].get("size") or int(get(url, {"Range": "bytes=0-0"})[1]["Content-Range"].split("/")[1])
    digest = hashlib.sha256()
    target = pathlib.Path(folder)
    with zipfile.ZipFile(io.BufferedReader(Remote(url, size), 1 << 18)) as archive:
        for entry in sorted(archive.infolist(), key=lambda one: one.filename):
            if not entry.filename.startswith(prefix) or entry.is_dir():
                continue
            content = archive.read(entry)
            name = entry.filename[len(prefix):]
            if ".." in pathlib.PurePosixPath(name).parts or name.startswith("/"):
                sys.exit(f"{package}: bad name {entry.filename}")
            digest.update(name.encode() + b"\0" + content + b"\0")
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    if digest.hexdigest() != content_digest:
        sys.exit(f"{package} {version}: what was extracted has the digest {digest.hexdigest()}, not {content_digest}")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
