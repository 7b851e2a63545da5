"""LLVM IR to assembly text and object files: by LLVM in a process of its own, kept in the on-disk cache.

The process is started at the first compilation and stays for the next ones; starting it takes a quarter of a second.
When it dies, which is what LLVM does about an instruction that it cannot select, the caller gets an InternalError with
LLVM's words, and the next compilation starts another one.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import IO

from minitile.backends.amd.check import check
from minitile.cache import Entry, default_cache, make_key
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.target import Target

OLDEST = (0, 50)  # the first llvmlite with LLVM 22, which knows gfx950 well


def generate(llvm: str, target: Target) -> str:
    """The assembly text, checked (see check.py). Raises TargetError where llvmlite is not installed, InternalError
    where LLVM refuses the text or gives something that must not run."""
    return compiled(llvm, target, "assembly").decode()


def compiled(llvm: str, target: Target, emit: str) -> bytes:
    """`emit`: "assembly" or "object"."""
    version = llvmlite_version(target)
    store = default_cache()
    key = make_key("gcn", llvm, target.arch, emit, version) if store is not None else ""
    if store is not None and (entry := store.load(key)) is not None:
        return entry.blob
    result = _worker().compile(llvm, target.arch, emit)
    if emit == "assembly":
        check(result.decode(), target)
    if store is not None:
        store.store(key, Entry({}, result))
    return result


def llvmlite_version(target: Target) -> str:
    """Raises TargetError where there is none that will do."""
    hint = "pip install 'llvmlite>=0.50', or minitile[amd]"
    if not _installed():
        raise TargetError(f"compiling for {target} needs llvmlite, which is not installed", hint=hint)
    version = importlib.metadata.version("llvmlite")
    numbers = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    if numbers < OLDEST:
        raise TargetError(f"compiling for {target} needs llvmlite 0.50 or newer, not {version}", hint=hint)
    return version


def _installed() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


class Worker:
    """One process; requests are answered one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.said: IO[bytes] | None = None
        self.owner = 0

    def compile(self, llvm: str, cpu: str, emit: str) -> bytes:
        with self.lock:
            process = self.started()
            data = llvm.encode()
            request = json.dumps({"cpu": cpu, "emit": emit, "bytes": len(data)}).encode() + b"\n" + data
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(request)
                process.stdin.flush()
                line = process.stdout.readline()
                answer = json.loads(line) if line else None
                result = process.stdout.read(answer["bytes"]) if answer else b""
            except (BrokenPipeError, json.JSONDecodeError):
                answer, result = None, b""
            if answer is None:
                raise InternalError(f"LLVM gave up on the kernel: {self.last_words(process)}")
        if not answer["ok"]:
            raise InternalError(f"LLVM refuses the kernel's text: {result.decode(errors='replace').strip()}")
        return result

    def started(self) -> subprocess.Popen[bytes]:
        """The running process; one of this very process, not of the one that it was forked from."""
        if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
            self.said = tempfile.TemporaryFile()  # noqa: SIM115
            self.owner = os.getpid()
            script = Path(__file__).with_name("worker.py")
            self.process = subprocess.Popen(
                [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said
            )
            atexit.register(self.stop)
        return self.process

    def last_words(self, process: subprocess.Popen[bytes]) -> str:
        """What a process that died said, its end."""
        code = process.wait()
        self.process = None
        assert self.said is not None
        self.said.seek(0)
        lines = [line for line in self.said.read().decode(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "error" in line.lower() or "cannot" in line.lower()]
        return " ".join((telling or lines)[:3]) or f"its process ended with code {code}"

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None and self.owner == os.getpid() and process.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.wait(timeout=5)


@cache
def _worker() -> Worker:
    return Worker()
