"""A loadable code object (hsaco) from LLVM IR: an object file by LLVM, linked by what is installed, and read back.

One relocatable needs nothing but `ld.lld -shared`. llvmlite has no linker; ROCm has one, and so have most Linux
distributions (package lld; any version from 18 on, also those that do not know gfx950 by name). Where there is ROCm
without its compiler, its library comgr links (comgr.py).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from minitile.backends.amd.assemble import comgr
from minitile.backends.amd.assemble.code_object import CodeObject, read_code_object
from minitile.backends.amd.assemble.codegen import compiled
from minitile.backends.amd.verify.check import arguments, costs
from minitile.driver.processes import run, scratch
from minitile.hardware import Target
from minitile.ir.diagnostics import InternalError, TargetError

NAMES = ("ld.lld", *(f"ld.lld-{version}" for version in range(24, 17, -1)))
NO_LINKER = "install ROCm, or your distribution's package lld, or set MINITILE_LLD to an ld.lld"


def link(llvm: str, target: Target, text: str) -> bytes:
    """The code object of LLVM IR whose assembly is `text`. Raises TargetError where nothing links."""
    linker = find_linker()
    if linker is None and not comgr.available():
        raise TargetError(
            "there is no ld.lld to link a code object with, and no ROCm",
            hint=NO_LINKER,
        )
    relocatable = compiled(llvm, target, "object")
    data = comgr.link(relocatable, target.arch) if linker is None else link_by(linker, relocatable)
    check_code_object(read_code_object(data), target, text)
    return data


def link_by(linker: str, relocatable: bytes) -> bytes:
    """By an ld.lld. Raises TargetError where it does not run, InternalError for what it refuses."""
    with scratch() as folder:
        source, result = folder / "kernel.o", folder / "kernel.hsaco"
        source.write_bytes(relocatable)
        try:
            done = run([linker, "-shared", "-o", str(result), str(source)])
        except OSError as error:
            raise TargetError(f"the linker {linker} does not run: {error}", hint="see MINITILE_LLD") from None
        if done.code:
            raise InternalError(f"{linker} refuses the kernel's object file: {done.errors.strip()}")
        if not result.is_file():
            raise TargetError(f"the linker {linker} ended without a result: it is no ld.lld", hint="see MINITILE_LLD")
        return result.read_bytes()


def find_linker() -> str | None:
    """MINITILE_LLD, else an ld.lld on PATH, else ROCm's."""
    given = os.environ.get("MINITILE_LLD")
    if given:
        return given
    found = next(filter(None, map(shutil.which, NAMES)), None)
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "llvm/bin/ld.lld")
    return found or (str(rocm) if rocm.exists() else None)


def check_code_object(made: CodeObject, target: Target, text: str) -> None:
    """Raises InternalError where it is not of the assembly that was checked and simulated."""
    cost = costs(text)
    expected = (target.arch, cost.vgprs, cost.sgprs, cost.vgpr_spills + cost.sgpr_spills, cost.scratch, cost.lds)
    found = (made.arch, made.vgprs, made.sgprs, made.spills, made.scratch, made.lds)
    laid = [(a.name, a.offset, a.size) for a in made.arguments]
    if found != expected or laid != arguments(text):
        raise InternalError(f"the code object is not of its assembly: {found} {laid}, {expected} {arguments(text)}")
