"""The state of one batch of CTAs that run side by side, and how findings are made.

Thread slot t of a batch is thread `t % padded` of its CTA, where `padded` is the block size rounded up to whole warps;
slots behind the block's end never live. Registers are arrays over all slots. The scheduler decides who executes what
(`scheduler.py`); this class is what instruction handlers work on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..core.arguments import Dim
from ..core.memory import Fault, GlobalSpace, LocalSpace, ParamSpace, SharedSpace, Space
from ..core.report import Access, Finding, Report
from ..core.scalars import DTYPES, UNSIGNED, Array
from .instructions.async_copy import AsyncCopies
from .instructions.barriers import Barriers
from .instructions.bulk_copy import BulkCopies
from .instructions.cluster import Clusters
from .instructions.launch_control import LaunchControl
from .instructions.mbarrier import MBarriers
from .instructions.proxy_fences import RegisterBudget
from .instructions.wgmma import WarpGroups
from .program import RANK_SHIFT, Program
from .race.model import RaceModel
from .tcgen05.memory import TensorMemory
from .tcgen05.products import Products
from .tensor_map import Descriptor
from .wait_queue import WaitQueue

POISON = {size: int.from_bytes(b"\xa5" * size, "little") for size in UNSIGNED}
_MAX_FINDINGS = 64


@dataclass(slots=True)
class Launch:
    """One launch: its geometry, its memory, its options, and what has been found so far."""

    program: Program
    grid: Dim
    block: Dim
    cluster: Dim
    shared_size: int
    dynamic_shared: int
    globals: GlobalSpace
    params: ParamSpace
    schedule: str
    check: bool
    rng: np.random.Generator
    race: RaceModel | None
    report: Report = field(default_factory=Report)
    seen: set[tuple[object, ...]] = field(default_factory=set)
    only_first: bool = False  # a finding ends the run
    descriptors: dict[bytes, Descriptor | None] = field(default_factory=dict)  # decoded so far
    order: Array | None = None  # for clusters: the grid's number of each CTA, in the order in which they run
    printed: list[tuple[int, str]] = field(default_factory=list)
    started: int = 0  # so many CTAs, in the order in which they run, have started or are other CTAs' work

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> int:
        """Thread slots of a CTA: whole warps."""
        return -(-self.threads // 32) * 32


class Machine:
    """Registers, memories, barriers and pending copies of the CTAs first .. first + ctas - 1 of the grid."""

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        self.launch = launch
        self.program = launch.program
        self.first = first
        self.ctas = ctas
        self.padded = launch.padded
        slots = self.slots = ctas * launch.padded
        self.thread = np.arange(slots, dtype=np.int64)
        self.cta = self.thread // launch.padded
        self.live = self.thread % launch.padded < launch.threads
        self.regs = _registers(self.program, slots)
        self.defined = {slot: np.zeros(slots, bool) for slot in self.program.fragile}
        self.carry = np.zeros(slots, np.uint32)
        self.clock = 0
        self.returns: dict[str, Array] = {}  # per called function: the call that each thread is in
        # Where shared::cta begins in shared::cluster, for each thread (instructions/cluster.py); None without clusters
        rank = (first + self.cta) % launch.cluster_size
        self.window: Array | None = None if launch.cluster_size == 1 else rank << RANK_SHIFT
        self.race = launch.race
        shared = SharedSpace(launch.shared_size, ctas, self.program.shared_names)
        self.spaces: dict[str, Space] = {
            "global": launch.globals,
            "shared": shared,
            "local": LocalSpace(self.program.local_size, slots),
            "param": launch.params,
        }
        self.barriers = Barriers(self)
        self.copies = AsyncCopies(self)
        self.waiters = WaitQueue(self)
        self.mbarriers = MBarriers(self)
        self.bulk = BulkCopies(self)
        self.wgmma = WarpGroups(self)
        self.tensor = TensorMemory(self)
        self.products = Products(self)
        self.clusters = Clusters(self)
        self.launch_control = LaunchControl(self)
        self.budget = RegisterBudget(self)
        self.polls: dict[object, int] = {}  # what a thread has asked an mbarrier in vain, and when
        self.specials: dict[str, Array] = {}
        if self.race is not None:
            self.race.start_batch(self, shared)

    # -- special registers (PTX ISA 8.0, chapter 10) -------------------------------------------------------------------

    def special(self, name: str) -> Array:
        """A special register's value per thread slot."""
        if name.startswith(("clock", "globaltimer")):
            self.clock += 32
            return np.full(self.slots, self.clock, np.uint64)
        if name not in self.specials:
            self.specials[name] = self._special(name)
        return self.specials[name]

    def _special(self, name: str) -> Array:
        launch = self.launch
        base, _, axis = name.partition(".")
        tid, cta = self.thread % self.padded, self.number(self.first + self.cta)
        ctas = self.number(self.first + np.arange(self.ctas))
        position = {"tid": (np.arange(self.padded), launch.block), "ctaid": (ctas, launch.grid)}
        size = {"ntid": launch.block, "nctaid": launch.grid, "cluster_nctaid": launch.cluster}
        if base in position:
            linear, (nx, ny, _) = position[base]
            part = {"x": linear % nx, "y": linear // nx % ny, "z": linear // (nx * ny)}[axis].astype(np.uint32)
            return np.tile(part, self.ctas) if base == "tid" else np.repeat(part, self.padded)
        if base in size:
            return np.full(self.slots, size[base]["xyz".index(axis)], np.uint32)
        if base.startswith("cluster") or base == "nclusterid":
            return self._cluster_special(base, axis)
        lane = tid % 32
        bit = np.uint64(1) << lane.astype(np.uint64)
        values: dict[str, Array | int] = {
            "laneid": lane,
            "warpid": tid // 32,
            "nwarpid": self.padded // 32,
            "lanemask_eq": bit,
            "lanemask_lt": bit - np.uint64(1),
            "lanemask_le": bit * np.uint64(2) - np.uint64(1),
            "lanemask_gt": ~(bit * np.uint64(2) - np.uint64(1)) & np.uint64(0xFFFFFFFF),
            "lanemask_ge": ~(bit - np.uint64(1)) & np.uint64(0xFFFFFFFF),
            "smid": cta % 132,
            "nsmid": 132,
            "total_smem_size": launch.shared_size,
            "dynamic_smem_size": launch.dynamic_shared,
        }
        return np.broadcast_to(np.asarray(values.get(base, 0)), (self.slots,)).astype(np.uint32)

    def _cluster_special(self, base: str, axis: str) -> Array:
        launch = self.launch
        position = self.first + self.cta
        rank, cluster = position % launch.cluster_size, position // launch.cluster_size
        counts = tuple(grid // size for grid, size in zip(launch.grid, launch.cluster, strict=True))
        if base == "cluster_ctarank":
            return rank.astype(np.uint32)
        if base == "cluster_nctarank":
            return np.full(self.slots, launch.cluster_size, np.uint32)
        if base == "nclusterid":
            return np.full(self.slots, counts["xyz".index(axis)], np.uint32)
        linear, (nx, ny, _) = (rank, launch.cluster) if base == "cluster_ctaid" else (cluster, counts)
        return {"x": linear % nx, "y": linear // nx % ny, "z": linear // (nx * ny)}[axis].astype(np.uint32)

    def number(self, position: Array) -> Array:
        """The grid's number of the CTAs that run at these positions."""
        return position if self.launch.order is None else self.launch.order[position]

    def end(self) -> None:
        """All threads have exited: what is in flight lands, and what is left is checked."""
        self.bulk.end()
        self.wgmma.end()
        self.products.end()
        self.tensor.end()
        self.budget.end()

    # -- who is who, in messages ---------------------------------------------------------------------------------------

    def thread_position(self, slot: int) -> tuple[Dim, Dim]:
        """(thread, CTA) coordinates of a slot."""
        (bx, by, _), (gx, gy, _) = self.launch.block, self.launch.grid
        tid, cta = slot % self.padded, int(self.number(np.array(self.first + slot // self.padded)))
        return (tid % bx, tid // bx % by, tid // (bx * by)), (cta % gx, cta // gx % gy, cta // (gx * gy))

    def access(self, what: str, site: int, slot: int | None = None) -> Access:
        """One side of a finding: what happened at the instruction with this index."""
        ins = self.program.code[site].ins
        thread, cta = (None, None) if slot is None else self.thread_position(slot)
        return Access(what, ins.line, ins.text, ins.source, thread, cta)

    def find(self, finding: Finding, stop: bool = False) -> None:
        """Add a finding, unless the same defect at the same lines is known already."""
        second = finding.second.line if finding.second else None
        buffer = finding.buffer and finding.buffer.partition("[")[0]
        key = (finding.kind, finding.hazard, finding.space, buffer, finding.first.line, second)
        if key not in self.launch.seen and len(self.launch.report.findings) < _MAX_FINDINGS:
            self.launch.seen.add(key)
            self.launch.report.findings.append(finding)
        if stop or self.launch.only_first:
            raise Fault(finding.kind)

    def fault(
        self,
        kind: str,
        message: str,
        site: int,
        what: str,
        slot: int,
        space: str,
        where: tuple[str | None, int],
        size: int = 1,
    ) -> None:
        """Report something that ends the run."""
        name, offset = where
        access = self.access(what, site, slot)
        span = (offset, offset + size)
        self.find(Finding(kind, message, access, space=space, buffer=name, bytes=span), stop=True)

    def print(self, slot: int, text: str) -> None:
        """Output of vprintf."""
        self.launch.printed.append((self.first * self.padded + slot, text))


def _registers(program: Program, slots: int) -> list[Array]:
    """Fresh registers with values that stand out: 0xA5 bytes, false predicates."""
    unused = np.zeros(0, np.uint32)
    registers: list[Array] = [unused] * program.module.slots
    alike: dict[str, list[int]] = {}  # by kind; a kind that is not known is declared, and whatever uses it refused
    for register in program.registers:
        if register.kind in DTYPES:
            alike.setdefault(register.kind, []).append(register.slot)
    for kind, places in alike.items():
        size, shape = DTYPES[kind].itemsize, (len(places), slots)
        if kind in ("pred", "b128"):
            fresh = np.full(shape, 0 if kind == "pred" else b"\xa5" * size, DTYPES[kind])
        else:
            fresh = np.full(shape, POISON[size], UNSIGNED[size])
        for slot, values in zip(places, fresh, strict=True):
            registers[slot] = values
    return registers
