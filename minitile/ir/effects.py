"""What an operation touches: the one description that barriers, fences, waits and scheduling are computed from.

An `Access` names the memory object, the version or slot of it, the byte region, who accesses it and by which proxy.
Passes that insert synchronisation ask `op.accesses()`; they know no operation by name. A `Sync` is how an operation
orders the accesses of threads with one another: `op.syncs()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minitile.ir.core import Value


Box = tuple[tuple["Value", int], ...]


def box_at(start: tuple[Value, ...], extent: tuple[int, ...]) -> Box | None:
    """The part of a tensor from `start` on; without a start, all of it."""
    return tuple(zip(start, extent, strict=True)) if start else None


class Place(NamedTuple):
    """What an access's addresses come from: of the address (a scalar, or registers by number), an offset in bytes and
    a width in bits each."""

    address: Value
    address_of: tuple[int, ...]
    offsets: tuple[int, ...]
    bits: int


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access.

    kind      "read", "write", "atomic"
    mem       the tensor or buffer value; None: any memory (an unknown operation)
    slot      the version index (an i32 value) of a versioned buffer; None: version 0 or all
    region    bytes [lo, hi) of one version that it may touch; None: all
    proxy     "generic", "async" (TMA, wgmma), "tensormap", or "any" of them (an unknown operation)
    token     the token whose completion ends the access; None: it is complete at once, for the accessing thread
    pipeline   what orders the access with the others of the same memory, if it is not barriers: a pipeline's slots
    threads   "all" threads of the CTA, or "one" elected thread of it, or "some": those for which the operation's
              predicate holds; "group": each warpgroup as one, so that the token is complete for all of its warps where
              one of them has waited for it
    ctas      "own" memory, or the same bytes in other CTAs of the cluster as well ("cluster")
    box       of a tensor, per dimension: the first index that it may touch, and how many there are; None: all of it
    part      of a tensor: the same for what an accessing thread touches of the box by itself; None: all of it, maybe
    free      of a pipeline's write: its slot has been acquired, so that all are done with what was in it
    place     what each thread's addresses come from: with equal places, each thread touches the same bytes twice
    whole     the number of a tile: in parts of the same one, in the same box, each thread touches bytes of its own
    """

    kind: str
    mem: Value | None
    slot: Value | None = None
    region: tuple[int, int] | None = None
    proxy: str = "generic"
    token: Value | None = None
    pipeline: Value | None = None
    threads: str = "all"
    ctas: str = "own"
    box: Box | None = None
    part: Box | None = None
    free: bool = False
    place: Place | None = None
    whole: int | None = None

    @property
    def writes(self) -> bool:
        return self.kind != "read"


UNKNOWN = Access("atomic", None, proxy="any")


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """The elements that a tile operation names in memory: those of a tile of `shape`, which lies at `indices` along
    `dims` (see `ir.ops.tile`). kind: "read", "write", "atomic"."""

    kind: str
    mem: Value
    indices: tuple[Value, ...]
    dims: tuple[int | None, ...]
    shape: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How many indices of each dimension of the memory."""
        return tuple(1 if d is None else self.shape[d] for d in self.dims)


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """One way in which an operation orders accesses between threads.

    kind      "release": what the thread has done is in order with what others do that acquire `on`; "acquire": the
              other side; "meet": both at once, by all the threads that take part
    on        what the two sides have in common: the buffer of barrier words, or a barrier's number; None: that they
              stand at the same operation
    word      the address of the barrier word in it
    threads   "all": each thread that comes here takes part; "one": an elected one does, for those it has met
    count     how many threads meet, where it is not all of those that come here together
    """

    kind: str
    on: object
    word: Value | None = None
    threads: str = "all"
    count: int | None = None

    @property
    def releases(self) -> bool:
        return self.kind != "acquire"

    @property
    def acquires(self) -> bool:
        return self.kind != "release"
