"""st.async and red.async: stores into shared memory of the cluster that complete on an mbarrier (PTX ISA 8.7, 9.7.8.13
and 9.7.13.9; sm_90).

Each thread sends 4 to 16 bytes to another CTA of its cluster (or its own), with an mbarrier there, which counts the
bytes when they have landed. They are operations of the generic proxy: no proxy fence, but no thread knows of their
completion before the mbarrier's phase is over; who waits for what another CTA has sent does so in the cluster's scope.
An asynchronous operation comes behind the earlier ones of its thread (8.9.1.1), and its completion on the mbarrier is a
release in the cluster's scope: a thread that waits for that knows what the sending one knew when it sent. As for
copies, the mbarrier's initialisation is to be fenced (fence.mbarrier_init, 9.7.12.4). The other CTA must not end before
the bytes have come (cluster.py). Reductions of several threads at one place do not conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import DTYPES, SIZES, UNSIGNED, Sel
from ...core.updates import UPDATES
from ..operands import address, error, read
from ..program import Linker
from ..syntax import Instruction, Operand, Vector
from ..table import Handler, instruction
from .bulk_copy import Combine, Load, combine_by
from .load_store import bit_kind

if TYPE_CHECKING:
    from ..machine import Machine


@instruction("st.async", results=0)
def _store(ins: Instruction, linker: Linker) -> Handler:
    return _send(ins, linker, None)


@instruction("red.async", results=0)
def _reduce(ins: Instruction, linker: Linker) -> Handler:
    name = next((mod for mod in ins.mods if mod in UPDATES), None)
    if name is None:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    return _send(ins, linker, combine_by(name, DTYPES[ins.mods[-1]]))


def _send(ins: Instruction, linker: Linker, combine: Combine | None) -> Handler:
    """st.async [to], b, [mbarrier], and the like."""
    if "global" in ins.mods or len(ins.operands) != 3:
        raise error(ins, f"unsupported instruction {ins.opcode}: only those that complete on an mbarrier are")
    kind = bit_kind(ins.mods[-1])
    items: tuple[Operand, ...] = (ins.operands[1],)
    if isinstance(ins.operands[1], Vector):
        items = ins.operands[1].items
    if len(items) != next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4")), 1):
        raise error(ins, "the vector has another length than the instruction says")
    to, barrier = address(ins.operands[0], ins, linker), address(ins.operands[2], ins, linker)
    readers = [read(item, kind, ins, linker) for item in items]
    size, site = SIZES[kind] * len(items), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        shared, threads = m.spaces["shared"], m.thread[sel]
        words = np.empty((len(threads), len(readers)), UNSIGNED[SIZES[kind]])
        for column, reader in enumerate(readers):
            words[:, column] = reader(m, sel).view(words.dtype)
        where = shared.locate(m, sel, to(m, sel), size, site, "write")
        bars = m.mbarriers.locate(sel, barrier(m, sel), site)
        m.clusters.reach(where, threads, site)
        for index, (thread, place) in enumerate(zip(threads.tolist(), bars.tolist(), strict=True)):
            bar = m.mbarriers.get(place, thread, site)
            if m.mbarriers.split(place)[0] != m.mbarriers.split(int(where[index]))[0]:
                m.mbarriers.complain("the mbarrier lies in another CTA than the destination", thread, site)
            m.mbarriers.check_fenced(bar, thread, site)
            one = where[index : index + 1]
            data = np.ascontiguousarray(words[index]).view(np.uint8)
            load = Load(bar, one, data, size, thread, site, combine=combine, width=size)
            if m.race is not None:
                load.step = bar.serial + 1
                key = bar.key if thread // m.padded == bar.cta else bar.sent
                load.column = m.race.proxy.load(thread, one, site, key, load.step, size, generic=True)
                load.release = m.race.cta(thread), m.race.clocks.release(np.array([thread]))
            m.bulk.load(load)

    return run
