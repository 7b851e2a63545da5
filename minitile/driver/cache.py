"""The on-disk cache: what was compiled once is found again by any later process.

An entry is a blob (a cubin, assembly text) with metadata (JSON), in one file named by its key, `<root>/<k[:2]>/<k>.mt`:

    minitile cache 2\\n <sha256 of all that follows, 64 hex digits>\\n <bytes of key, metadata, blob, decimal>\\n
    <key> <metadata> <blob>

**Bound to its key.** The key is JSON: the entry's kind and all that the result depends on (this minitile's own source,
target, assembler or LLVM to the build, options, the text by its digest). It stands in the entry. An entry with another
key than the one asked for, whatever its name, counts as absent; so does one that its checksum does not fit, one whose
metadata are not of its kind (a field missing, one too many, of another type), and one whose blob cannot be what it
should be. Such a file is removed, and the result is made anew.

**Ours alone.** An entry may be machine code. So the folder and its files must belong to this user, and no other user
may be allowed to write them; otherwise there is a CacheWarning that says so, and the cache is not used. Folders are
made for the user alone.

**Bounded.** Where the entries take more than MINITILE_CACHE_SIZE (1G), those not used for longest go, down to three
quarters. To add up all of them is dear, so a file that grows by a byte for each 4 KiB stored says when that is due.

Entries are written to a temporary file in the same folder and renamed, so that a reader sees all of one or nothing, and
writers in several processes cannot mix. A cache that cannot be written (a full or read-only disk) is one that forgets;
it is never an error.

The folder is `$MINITILE_CACHE_DIR`, else `minitile` in the platform's folder for caches (see `user_folder`);
`MINITILE_CACHE=0` switches the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from minitile.ir.diagnostics import HostError

_LOG = logging.getLogger("minitile.cache")
_MAGIC = b"minitile cache 2\n"
_SUFFIX = ".mt"
SIZE = 1 << 30  # bytes of all entries
LARGEST = 1 << 28  # bytes of one that is read
_STORED = ".stored"  # grows by a byte for each _UNIT stored
_UNIT = 1 << 12
_DUE = 16  # the entries are added up whenever this part of the limit was stored
_KEPT = 0.75
_FRESH_SECONDS = 3600.0  # the time of last use is not noted more often; temporary files may be in use for so long
_SHORT = 100  # characters of what stands in a key as it is; of more, the digest

Check = Callable[[Any], bool]


class CacheWarning(UserWarning):
    """The cache cannot be trusted and is not used."""


# What an entry may hold -------------------------------------------------------------------------------------------


def text(value: Any) -> bool:
    return isinstance(value, str)


def texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(text, value))


def count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def positive(value: Any) -> bool:
    """A time, say."""
    return isinstance(value, (int, float)) and not flag(value) and math.isfinite(value) and value >= 0


def optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of entries: the metadata's `fields`, each with what its value must be, and whether a blob can be one."""

    name: str
    fields: Mapping[str, Check]
    whole: Check

    def fits(self, meta: Any, blob: bytes) -> bool:
        return (
            isinstance(meta, dict)
            and meta.keys() == self.fields.keys()
            and all(check(meta[name]) for name, check in self.fields.items())
            and self.whole(blob)
        )


@dataclass(frozen=True, slots=True)
class Key:
    """All that an entry depends on, as JSON `data`; its digest (64 hex digits) is the entry's `name`."""

    kind: Kind
    data: bytes
    name: str


def make_key(kind: Kind, **depends: str) -> Key:
    """The key of everything that a result depends on, by name, and of this minitile itself."""
    parts = {"kind": kind.name, "minitile": source_digest(), **{f".{n}": _brief(t) for n, t in depends.items()}}
    data = json.dumps(parts, sort_keys=True).encode()
    return Key(kind, data, hashlib.sha256(data).hexdigest())


def _brief(part: str) -> str | list[str | int]:
    return part if len(part) <= _SHORT else [len(part), hashlib.sha256(part.encode()).hexdigest()]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one key stands for: `meta` is plain JSON data."""

    meta: dict[str, Any]
    blob: bytes


# The folder -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache in the folder `root`, which need not exist yet; of at most some `limit` bytes."""

    root: Path
    limit: int = SIZE

    def load(self, key: Key) -> Entry | None:
        """The entry of `key`; None if there is none, or one that is damaged or another key's (then it is removed)."""
        folder, path = self._place(key.name)
        if not self._trusted(folder):
            return None
        try:
            data = _read(path)
        except FileNotFoundError:
            return None
        except OSError:
            data = b""
        entry = _unpack(data, key)
        if entry is None:
            _remove(path)
            _LOG.info("%s %s is damaged, and was removed", key.kind.name, key.name[:16])
        else:
            _LOG.debug("%s %s found, %d bytes", key.kind.name, key.name[:16], len(entry.blob))
        return entry

    def store(self, key: Key, entry: Entry) -> bool:
        """Keeps `entry` under `key`; says whether that could be done, which is not for one that is not of the kind."""
        if not key.kind.fits(entry.meta, entry.blob):
            return False
        data = _pack(key, entry)
        if len(data) > min(self.limit, LARGEST):
            return False
        folder, path = self._place(key.name)
        temporary = ""
        try:
            if not os.path.isdir(folder):
                _make(Path(folder))
            if not self._trusted(folder):
                return False
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            _remove(temporary)
            return False
        except BaseException:
            _remove(temporary)
            raise
        _LOG.debug("%s %s stored, %d bytes", key.kind.name, key.name[:16], len(entry.blob))
        self._bound(len(data))
        return True

    def refusal(self) -> str:
        """Why the folder is not used; empty where it is, or is not there yet."""
        return _distrusted(self.root)

    def entries(self) -> Iterator[tuple[str, Path]]:
        """Each entry's name and file, in the order of the names."""
        for path in sorted(self.root.glob(f"??/*{_SUFFIX}")):
            yield path.stem, path

    def clear(self) -> int:
        """Removes all entries, and what interrupted writers left; returns how many entries there were."""
        removed = sum(_remove(path) for _, path in self.entries())
        for path in (*self.root.glob("??/.*.tmp"), self.root / _STORED):
            _remove(path)
        for folder in self.root.glob("??"):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return removed

    def evict(self, kept: float = _KEPT) -> int:
        """Where the entries take more than the limit, removes those not used for longest, down to a share of it;
        returns how many. Old temporary files go as well."""
        found, total, now = [], 0, time.time()
        for path in self.root.glob("??/*"):
            with contextlib.suppress(OSError):
                about = path.lstat()
                if path.suffix == _SUFFIX:
                    found.append((about.st_mtime, about.st_size, path))
                    total += about.st_size
                elif now - about.st_mtime > _FRESH_SECONDS:
                    _remove(path)
        removed = 0
        if total > self.limit:
            for _, size, path in sorted(found):
                if total <= kept * self.limit:
                    break
                removed += _remove(path)
                total -= size
            _LOG.info("%d entries removed, which were not used for longest: %d bytes are left", removed, total)
        return removed

    def _bound(self, stored: int) -> None:
        """Notes that so many bytes were stored, by this process or others, and evicts when it is time to look."""
        path = self.root / _STORED
        try:
            number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o600)
            try:
                os.write(number, b"." * (stored // _UNIT + 1))
                due = os.fstat(number).st_size * _UNIT >= self.limit // _DUE
                if due:
                    os.ftruncate(number, 0)
            finally:
                os.close(number)
        except OSError:
            return
        if due:
            self.evict()

    def _trusted(self, folder: str) -> bool:
        why = _distrusted(self.root) or _distrusted(folder)
        if why:
            warnings.warn(f"the cache is not used: {why}", CacheWarning, stacklevel=4)
        return not why

    def _place(self, name: str) -> tuple[str, str]:
        """The folder and the file of an entry. (As text: a load is counted in microseconds.)"""
        folder = f"{self.root}{os.sep}{name[:2]}"
        return folder, f"{folder}{os.sep}{name}{_SUFFIX}"


def default_cache() -> Cache | None:
    """The user's cache, None where it is switched off or there is no place for it. The environment is asked each time.
    Raises HostError for a MINITILE_CACHE_SIZE that is no size."""
    if os.environ.get("MINITILE_CACHE") == "0":
        return None
    folder = os.environ.get("MINITILE_CACHE_DIR")
    root = Path(folder) if folder else user_folder()
    return None if root is None else Cache(root, _size(os.environ.get("MINITILE_CACHE_SIZE")))


def user_folder() -> Path | None:
    """Where this platform's programs keep what they can make again: `$XDG_CACHE_HOME`, else `~/.cache`; on macOS
    `~/Library/Caches`, on Windows `%LOCALAPPDATA%`. None for a user who has no such folder."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "minitile"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "minitile" / "Cache"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))  # a relative one is to be ignored
    return (given if given.is_absolute() else home / ".cache") / "minitile"


@lru_cache(maxsize=8)
def _size(given: str | None) -> int:
    if not given:
        return SIZE
    try:
        return parse_size(given)
    except ValueError:
        raise HostError(
            f"MINITILE_CACHE_SIZE={given!r} is no size", hint="as in 500M or 2G; MINITILE_CACHE=0: no cache"
        ) from None


def parse_size(given: str) -> int:
    """Bytes, of 500M or 2G. Raises ValueError for what is no size, and for none."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) *([KMGT]?)(?:i?B)?", given.strip(), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{given!r} is no size")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


@cache
def source_digest() -> str:
    """A digest of minitile's own Python source, so that entries of another version, or of an edited checkout, are not
    found. Read once per process."""
    here = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder, _, names in sorted(os.walk(here, followlinks=True)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(folder, name)
                digest.update(str(path.relative_to(here)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# Files ------------------------------------------------------------------------------------------------------------

# Of a link, a pipe or a device nothing is read, and no thread waits for one.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _read(path: Path | str, use: bool = True) -> bytes:
    """The file, empty if it is not one of ours. Notes that it was used, if it is."""
    number = os.open(path, os.O_RDONLY | _PLAIN)
    with os.fdopen(number, "rb", buffering=0) as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST or _of_others(about):
            return b""
        if use and time.time() - about.st_mtime > _FRESH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path)
        return file.readall() or b""


def _of_others(about: os.stat_result) -> str:
    """Why a file or folder is not this user's alone; empty where it is. Windows sees to that by itself."""
    if not hasattr(os, "geteuid"):
        return ""
    if about.st_uid != os.geteuid():
        return f"belongs to user {about.st_uid}, not to {os.geteuid()}"
    if about.st_mode & 0o022:
        return f"can be written by others (mode {stat.S_IMODE(about.st_mode):o})"
    return ""


def _distrusted(folder: Path | str) -> str:
    try:
        why = _of_others(os.stat(folder))
    except OSError:
        return ""
    if not why:
        return ""
    return (
        f"{folder} {why}, so that its code may be theirs; let MINITILE_CACHE_DIR name a folder of your own, or do "
        f"chmod 700 on this one, if it is yours"
    )


def _make(folder: Path) -> None:
    """A cache's folders, for this user alone; those around it as usual."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.mkdir(exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def _remove(path: Path | str) -> bool:
    if not path:
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _pack(key: Key, entry: Entry) -> bytes:
    meta = json.dumps(entry.meta).encode()
    body = b"%d %d %d\n" % (len(key.data), len(meta), len(entry.blob)) + key.data + meta + entry.blob
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _parts(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Key, metadata and blob of what is a whole entry."""
    at = len(_MAGIC)
    end = data.find(b"\n", at + 65, at + 200)
    if data[:at] != _MAGIC or data[at + 64 : at + 65] != b"\n" or end < 0:
        return None
    if hashlib.sha256(memoryview(data)[at + 65 :]).hexdigest().encode() != data[at : at + 64]:
        return None
    found = re.fullmatch(rb"(\d{1,12}) (\d{1,12}) (\d{1,12})", data[at + 65 : end])
    if found is None:
        return None
    key, meta, blob = map(int, found.groups())
    start = end + 1
    if start + key + meta + blob != len(data):
        return None
    return data[start : start + key], data[start + key : start + key + meta], data[start + key + meta :]


def _unpack(data: bytes, key: Key) -> Entry | None:
    """None for what is not the whole entry of that key."""
    parts = _parts(data)
    if parts is None or parts[0] != key.data:
        return None
    meta = _json(parts[1])
    return Entry(meta, parts[2]) if key.kind.fits(meta, parts[2]) else None


def read_any(path: Path) -> tuple[dict[str, Any], dict[str, Any], int] | None:
    """For people: the key and the metadata of the entry in a file, and the bytes of its blob; None for no entry."""
    try:
        parts = _parts(_read(path, use=False))
    except OSError:
        return None
    if parts is None:
        return None
    key, meta = _json(parts[0]), _json(parts[1])
    return (key, meta, len(parts[2])) if isinstance(key, dict) and isinstance(meta, dict) else None


def _json(data: bytes) -> Any:
    """None for what is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
