"""GCN assembly on its way to a GPU: the code object of the LLVM IR that it came from, for one processor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from minitile.backends.amd.assemble.link import link
from minitile.backends.amd.verify.check import costs
from minitile.backends.base import Costs, Program
from minitile.hardware import Target
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.runtime import hip
from minitile.runtime.errors import ArgumentError
from minitile.runtime.saved import Saved

if TYPE_CHECKING:
    from minitile.runtime.launch_info import LaunchInfo


class GcnProgram(Program):
    """One assembly text and the LLVM IR that it was generated from; without that (""), there is nothing to link."""

    def __init__(self, text: str, entry: str, target: Target, llvm: str = "") -> None:
        super().__init__(text)
        self.entry = entry
        self.target = target
        self.llvm = llvm

    def launcher(self, info: LaunchInfo) -> hip.Launcher:
        return hip.Launcher(info, self.image)

    def image(self, device: hip.DeviceInfo) -> bytes:
        """AMD's code runs on the one processor that it was compiled for."""
        if device.arch != self.target.arch:
            raise ArgumentError(
                f"{self.entry} was compiled for {self.target.arch}, and GPU {device.index} is {device.arch}",
                "call the kernel function itself: it compiles what a call needs",
            )
        return self.binary

    @property
    def binary(self) -> bytes:
        if not self.llvm:
            raise TargetError("a code object is made of LLVM IR, and this is assembly alone")
        check_wait_states(self.text, self.entry)
        return link(self.llvm, self.target, self.text)

    def saved(self, name: str, info: LaunchInfo) -> Saved:
        return Saved(name, "rocm", self.target.arch, info, {"hsaco": self.binary})

    @property
    def assembled(self) -> Any:
        raise TargetError(f"no cubin is assembled for {self.target}", hint="see .binary, .registers and .spills")

    def costs(self) -> Costs:
        found = costs(self.text)
        return Costs(found.vgprs, found.scratch)

    def known_costs(self) -> Costs:
        return self.costs()

    def summary(self) -> str:
        found = self.costs()
        return f"{found.registers} vector registers per thread, {found.spills} bytes of scratch"


def arch_of(text: str) -> str:
    """The processor that assembly is for; empty for other text."""
    found = re.match(r'\s*\.amdgcn_target "amdgcn-amd-amdhsa--(\w+)', text)
    return found.group(1) if found else ""


def check_wait_states(text: str, entry: str) -> None:
    """LLVM keeps the wait states between AMD's instructions, on every path; what goes to a GPU is looked at once more,
    by the simulator's own rules. Raises InternalError where some are missing."""
    from minitile.runtime.sim.amdgcn.hazards import find_hazards
    from minitile.runtime.sim.amdgcn.program import load_program

    program = load_program(text, entry)
    for found in find_hazards(program, [1] * len(program.code)):
        raise InternalError(f"LLVM leaves too few wait states: {found}")
