"""Fences of Hopper, setmaxnreg, griddepcontrol (PTX ISA 8.0, 9.7.12.4, 9.7.15).

A proxy fence orders a thread's own earlier generic accesses with the async proxy (`async_proxy.py`). setmaxnreg is
counted: what warps ask for in the end must fit into the 65536 registers of a multiprocessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import split_generic
from ...core.report import Finding
from ...core.scalars import Sel
from ..operands import address, error
from ..program import Linker
from ..race.async_clocks import GLOBAL, SHARED
from ..race.scopes import scope_of
from ..syntax import Instruction, Integer
from ..table import Decoded, Handler, Kind, instruction, whole_warp
from ..tensor_map import MAP_SIZE

if TYPE_CHECKING:
    from ..machine import Machine

_REGISTERS = 65536


@instruction("fence.proxy", results=0)
def _proxy_fence(ins: Instruction, linker: Linker) -> Handler:
    """fence.proxy.async{.space}, its one-directional forms for clusters, and those for tensor maps and aliases."""
    kind = ins.mods[1].partition("::")[0]
    if kind == "tensormap":
        return _tensor_map_fence(ins, linker)
    if kind not in ("async", "alias"):
        raise error(ins, f"unsupported fence {ins.opcode}")
    spaces = {mod.partition("::")[0] for mod in ins.mods[2:]} & {"shared", "global"}
    memories = [number for name, number in (("shared", SHARED), ("global", GLOBAL)) if not spaces or name in spaces]
    releases, acquires = "acquire" not in ins.mods, "release" not in ins.mods and "shared::cta" not in ins.mods

    def run(m: Machine, sel: Sel) -> None:
        if m.race is None or kind != "async":
            return
        if acquires and SHARED in memories:
            m.race.proxy.acquire(m.thread[sel])
        if not releases:
            return
        for memory in memories:
            m.race.proxy.fence(m.thread[sel], memory)
        if SHARED in memories:
            m.mbarriers.fence_init(m.thread[sel])

    return run


def _tensor_map_fence(ins: Instruction, linker: Linker) -> Handler:
    """fence.proxy.tensormap::generic.release.SCOPE, and .acquire.SCOPE [map], 128. They release and acquire as other
    fences do, besides."""
    scope = scope_of(ins)
    if "release" in ins.mods:

        def release(m: Machine, sel: Sel) -> None:
            if m.race is not None:
                m.race.globals.tensor_maps.release(m.thread[sel], scope)
                m.race.release(m.thread[sel], scope)

        return release
    size = ins.operands[1] if len(ins.operands) > 1 else None
    if not isinstance(size, Integer) or size.value != MAP_SIZE:
        raise error(ins, "an acquiring fence of the tensormap proxy takes an address and 128")
    where, site = address(ins.operands[0], ins, linker), linker.site(ins)

    def acquire(m: Machine, sel: Sel) -> None:
        if m.race is None:
            return
        m.race.acquire(m.thread[sel], scope)
        for space, threads, local, _ in split_generic(m, sel, where(m, sel)):
            if space.name != "global":
                continue
            places = space.locate(m, threads, local, MAP_SIZE, site, "tensor map", align=64)
            for thread, place in zip(m.thread[threads].tolist(), places.tolist(), strict=True):
                m.race.globals.tensor_maps.acquire(thread, place, scope)

    return acquire


@instruction("fence.mbarrier_init", results=0)
def _init_fence(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: m.mbarriers.fence_init(m.thread[sel])


@instruction("griddepcontrol", results=0)
def _dependent_grid(ins: Instruction, linker: Linker) -> Handler:
    """Grids of a stream run one after the other here, so nothing is to be waited for."""
    if ins.mods[:1] not in (("launch_dependents",), ("wait",)):
        raise error(ins, f"unsupported instruction {ins.opcode}")
    return lambda m, sel: None


class RegisterBudget:
    """What warps have asked for by setmaxnreg: registers per thread, 0 for those that have not. The four warps of a
    warpgroup ask alike (`.aligned`)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.asked = np.zeros(machine.slots // 32, np.int64)
        self.times = np.zeros(machine.slots // 32, np.int64)  # how often each warp has asked
        self.log: dict[tuple[int, int], tuple[int, bool]] = {}  # for what, by a warpgroup's first warp and times before
        self.site = 0
        limits = machine.program.function.limits
        ctas = limits.get("minnctapersm", (1,))[0]
        self.initial = min(256, _REGISTERS // (machine.padded * max(ctas, 1)) // 8 * 8)
        self.room = _REGISTERS // max(ctas, 1)

    def ask(self, sel: Sel, number: int, grows: bool, site: int) -> None:
        """setmaxnreg.inc or .dec by whole warps."""
        warps = self.machine.thread[sel][::32] // 32
        before = np.where(self.asked[warps] > 0, self.asked[warps], self.initial)
        wrong = before > number if grows else before < number
        if wrong.any():
            have = int(before[np.flatnonzero(wrong)[0]])
            message = f"setmaxnreg.{'inc' if grows else 'dec'} to {number}, but the warp has {have} registers a thread"
            access = self.machine.access("setmaxnreg", site, int(warps[0]) * 32)
            self.machine.find(Finding("register_budget", message, access))
        for warp in warps.tolist():
            key = int(self.machine.wgmma.team(warp)[0]), int(self.times[warp])
            if self.log.setdefault(key, (number, grows)) != (number, grows):
                self._differ(warp, site)
        self.asked[warps] = number
        self.times[warps] += 1
        self.site = site

    def _differ(self, warp: int, site: int) -> None:
        message = "the warps of a warpgroup ask for different numbers; all 128 threads must execute the same setmaxnreg"
        self.machine.find(Finding("divergent_barrier", message, self.machine.access("setmaxnreg", site, warp * 32)))

    def end(self) -> None:
        """All warps have asked for what they want."""
        if not self.asked.any():
            return
        for first, _ in self.log:
            team, per_cta = self.machine.wgmma.team(first), self.machine.padded // 32
            if team[-1] // per_cta != first // per_cta or len({*self.times[team].tolist()}) > 1:
                self._differ(first, self.site)
                break
        per_cta = np.where(self.asked > 0, self.asked, self.initial).reshape(self.machine.ctas, -1).sum(axis=1) * 32
        if (per_cta > self.room).any():
            message = (
                f"the warps of a CTA ask for {int(per_cta.max())} registers, more than the {self.room} it can have"
            )
            self.machine.find(Finding("register_budget", message, self.machine.access("setmaxnreg", self.site)))


@instruction("setmaxnreg", kind=Kind.WARP, results=0)
def _set_registers(ins: Instruction, linker: Linker) -> Decoded:
    number = ins.operands[0]
    if ins.mods[0] not in ("inc", "dec") or not isinstance(number, Integer):
        raise error(ins, f"unsupported instruction {ins.opcode}")
    if number.value % 8 or not 24 <= number.value <= 256:
        raise error(ins, f"the number of registers must be a multiple of 8 from 24 to 256, not {number.value}")
    site, grows = linker.site(ins), ins.mods[0] == "inc"
    return Decoded(lambda m, sel: m.budget.ask(sel, number.value, grows, site), whole_warp)
