"""One of the racing processes of `python -m tests.stress results`: asks for results and disturbs itself and the others.

    python -m tests.stress.disturbed FOLDER SEED

Each result is compared with the right one. In between, entries of the cache that all share are swapped, damaged, forged
and removed; the helper processes are killed and stopped by another thread; and some results are asked for where
the disk is full. Prints a line of JSON now and then: how many results were right, and what errors there were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

from minitile.backends.amd.assemble import codegen
from minitile.driver import cache as caches
from minitile.driver import processes
from minitile.ir.diagnostics import MinitileError
from tests.stress import texts

REPORT = 50  # results between two lines
DAMAGE = 0.06  # a result
FULL = 0.1  # of the results are asked for where the disk is full
PEACE = 2.0  # seconds between two signals to the helper processes
WHOLE = 0.004  # of the results are kernels that are compiled and executed
LARGEST = 3000  # bytes of a file where the disk is simulated to be full


def sabotage(root: Path, rng: random.Random) -> None:
    """One thing that must not happen to a cache."""
    entries = list(root.glob("??/*.mt"))
    if len(entries) < 2:
        return
    path, other = rng.sample(entries, 2)
    data, others = path.read_bytes(), other.read_bytes()
    kind = rng.randrange(16)
    if kind == 0:
        path.write_bytes(others)
        other.write_bytes(data)
    elif kind == 1:
        os.replace(other, path)
    elif kind == 2 and data:
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
    elif kind == 3:
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    elif kind == 4:
        path.write_bytes(data + b"\0" * rng.randrange(1, 5000))
    elif kind == 5:
        path.write_bytes(forged(data, others, rng))
    elif kind == 6:
        path.chmod(0o666)
    elif kind in (7, 8, 9):
        path.unlink()
        if kind == 8:
            path.symlink_to(other)
        if kind == 9:
            os.mkfifo(path) if rng.random() < 0.5 else path.mkdir()
    elif kind == 10:
        os.link(other, path.with_suffix(".link"))
        os.replace(path.with_suffix(".link"), path)
    elif kind == 11:
        path.parent.chmod(0o777)
        time.sleep(0.001)
        path.parent.chmod(0o700)
    elif kind == 12:
        (path.parent / f".{rng.random()}.tmp").write_bytes(data[:100])
    elif kind == 13:
        (root / ".stored").write_bytes(b"." * rng.randrange(1 << 16))
    elif kind == 14:
        os.utime(path, (0, 0))
    else:
        shutil.rmtree(path.parent)


def forged(data: bytes, others: bytes, rng: random.Random) -> bytes:
    """A file with a right checksum, of two entries' parts."""
    ours, theirs = caches._parts(data), caches._parts(others)
    if ours is None or theirs is None:
        return b""
    parts = rng.choice(
        [
            (theirs[0], ours[1], ours[2]),
            (theirs[0], theirs[1], ours[2]),
            (ours[0], b'{"more": 1}', ours[2]),
            (ours[0], b"[" * 5000, ours[2]),
            (ours[0], ours[1], ours[2][: len(ours[2]) // 2] + b"\xff"),
            (b"", b"", b""),
        ]
    )
    body = b"%d %d %d\n" % tuple(map(len, parts)) + b"".join(parts)
    return caches._MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def trouble(rng: random.Random) -> None:
    """Kills, and seldom stops, the helper processes of this process, for ever."""
    while True:
        time.sleep(rng.expovariate(1 / PEACE))
        for process in list(processes._live):
            how = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGSTOP, 0, 0, 0])
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.kill(process.pid, how)


@contextlib.contextmanager
def full_disk(folder: Path, real: bool):
    """The cache and temporary files on a disk that is (or as good as) full."""
    kept = {name: os.environ.get(name) for name in ("MINITILE_CACHE_DIR", "TMPDIR")}
    os.environ["MINITILE_CACHE_DIR"] = str(folder / "cache")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not real:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, limits[1]))
    try:
        yield
    finally:
        if not real:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def main(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    warnings.simplefilter("ignore", caches.CacheWarning)  # of the folders that anybody can write for a moment
    everything = texts.read(folder / "texts.json")
    disk, real = folder / "disk", (folder / "disk" / "real").exists()
    threading.Thread(target=trouble, args=(random.Random(seed + 1),), daemon=True).start()
    errors: Counter[str] = Counter()
    right = 0
    while True:
        sort, text, wanted = rng.choice(everything)
        n = rng.randrange(texts.VARIANTS)
        if rng.random() < DAMAGE:
            with contextlib.suppress(OSError):
                sabotage(Path(os.environ["MINITILE_CACHE_DIR"]), rng)
        try:
            if rng.random() < WHOLE:
                good = texts.is_right(texts.compiled(n, rng.choice(["gfx942", "sm_80"])), n)
            elif rng.random() < FULL:
                with full_disk(disk, real):
                    good = texts.make(sort, text) == wanted
            else:
                good = texts.make(sort, text) == wanted
        except MinitileError as error:
            errors[f"{type(error).__name__}: {error.message[:60]}"] += 1
            continue
        if not good:
            print(json.dumps({"wrong": [sort, n, text[:200]]}), flush=True)
            os._exit(1)
        right += 1
        if right == REPORT:
            print(json.dumps({"right": right, "errors": errors}), flush=True)
            right, errors = 0, Counter()


if __name__ == "__main__":
    assert codegen is not None
    main(Path(sys.argv[1]), int(sys.argv[2]))
