"""The on-disk cache: what was compiled once is found again by any later process.

An entry is a blob (a cubin) with metadata (JSON), in one file named by its key, `<root>/<k[:2]>/<k>.mt`:

    minitile cache 1\\n <sha256 of all that follows, 64 hex digits>\\n <metadata bytes, decimal>\\n <metadata> <blob>

Entries are written to a temporary file in the same folder and renamed, so that a reader sees all of one or nothing, and
writers in several processes cannot mix. What does not match its checksum is removed and counts as absent. A cache that
cannot be written (a full or read-only disk) is one that forgets; it is never an error.

The folder is `$MINITILE_CACHE_DIR`, else `~/.cache/minitile`; `MINITILE_CACHE=0` switches the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_MAGIC = b"minitile cache 1\n"
_SUFFIX = ".mt"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one key stands for: `meta` is plain JSON data."""

    meta: dict[str, Any]
    blob: bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache in the folder `root`, which need not exist yet."""

    root: Path

    def load(self, key: str) -> Entry | None:
        """The entry of `key`; None if there is none or it is damaged (then it is removed)."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        entry = _unpack(data)
        if entry is None:
            with contextlib.suppress(OSError):
                path.unlink()
        return entry

    def store(self, key: str, entry: Entry) -> bool:
        """Keeps `entry` under `key`; says whether that could be done."""
        path = self._path(key)
        temporary = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                file.write(_pack(entry))
            os.replace(temporary, path)
        except OSError:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return False
        return True

    def entries(self) -> Iterator[tuple[str, Path]]:
        """Each entry's key and file, in the order of the keys."""
        for path in sorted(self.root.glob(f"??/*{_SUFFIX}")):
            yield path.stem, path

    def clear(self) -> int:
        """Removes all entries, and what interrupted writers left; returns how many entries there were."""
        count = 0
        for _, path in self.entries():
            with contextlib.suppress(OSError):
                path.unlink()
                count += 1
        for path in self.root.glob("??/.*.tmp"):
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in self.root.glob("??"):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return count

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}{_SUFFIX}"


def default_cache() -> Cache | None:
    """The user's cache, None where it is switched off. The environment is asked each time."""
    if os.environ.get("MINITILE_CACHE") == "0":
        return None
    folder = os.environ.get("MINITILE_CACHE_DIR")
    return Cache(Path(folder) if folder else Path.home() / ".cache" / "minitile")


def make_key(*parts: str) -> str:
    """The key (64 hex digits) of everything that a result depends on: `parts`, in order, and this minitile itself."""
    digest = hashlib.sha256(source_digest().encode())
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


@cache
def source_digest() -> str:
    """A digest of minitile's own Python source, so that entries of another version, or of an edited checkout, are not
    found. Read once per process."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for folder, _, names in sorted(os.walk(here, followlinks=True)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(folder, name)
                digest.update(str(path.relative_to(here)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _pack(entry: Entry) -> bytes:
    meta = json.dumps(entry.meta).encode()
    body = b"%d\n" % len(meta) + meta + entry.blob
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _unpack(data: bytes) -> Entry | None:
    """None for what is no whole entry."""
    at = len(_MAGIC)
    checksum, newline, body = data[at : at + 64], data[at + 64 : at + 65], data[at + 65 :]
    if data[:at] != _MAGIC or newline != b"\n" or hashlib.sha256(body).hexdigest().encode() != checksum:
        return None
    length, _, rest = body.partition(b"\n")
    meta = rest[: int(length)]
    return Entry(json.loads(meta), rest[int(length) :])
