"""A loadable code object (hsaco) from LLVM IR: an object file by LLVM, linked by an lld that is installed.

One relocatable needs nothing but `ld.lld -shared`. llvmlite has no linker; ROCm has one, and so have most Linux
distributions (package lld).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from minitile.backends.amd.codegen import compiled
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.target import Target

NAMES = ("ld.lld", *(f"ld.lld-{version}" for version in range(24, 17, -1)))


def link(llvm: str, target: Target) -> bytes:
    """The code object. Raises TargetError where no linker is found."""
    linker = find_linker()
    if linker is None:
        raise TargetError(
            "there is no ld.lld to link a code object with",
            hint="install ROCm, or your distribution's package lld, or set MINITILE_LLD to an ld.lld",
        )
    data = compiled(llvm, target, "object")
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(data)
        done = subprocess.run([linker, "-shared", "-o", result, source], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError(f"{linker} refuses the kernel's object file: {done.stderr.strip()}")
        return result.read_bytes()


def find_linker() -> str | None:
    """MINITILE_LLD, else an ld.lld on PATH, else ROCm's."""
    given = os.environ.get("MINITILE_LLD")
    if given:
        return given
    found = next(filter(None, map(shutil.which, NAMES)), None)
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "llvm/bin/ld.lld")
    return found or (str(rocm) if rocm.exists() else None)
