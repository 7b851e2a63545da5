"""What threads know about the async proxy, beside the clocks of `clocks.py` (PTX ISA 8.0, 8.2.4 and 9.7.12.4).

Two more kinds of vector clocks travel along with every release and acquire, in one matrix per CTA (or cluster), a row
per thread:

    fences   per thread u: all of u's generic accesses to shared (or global) memory before this stamp have been
             followed by a proxy fence of u. A thread's own entry is the stamp of its latest fence.
    engines   per engine: how many of its steps are known to be complete. An async engine completes asynchronous
              operations in order: an mbarrier (its phases), a thread's bulk groups, a warpgroup's wgmma groups.

A cluster's threads need one thing more to access what threads of another CTA have: a fence of their own, behind the
synchronisation. `acquired` keeps, per thread, the fences that it knew of at its last one (PTX ISA 8.6, membar / fence:
the acquiring half of fence.proxy.async).

What threads of another CTA tell in too narrow a scope (`scopes.py`) does not count. One thing is taken from it all the
same: that asynchronous operations are over, by a thread that then overwrites them asynchronously. `observed` keeps it.
That is how slots are given back in a cluster: wgmma has read, one lane arrives at another CTA's mbarrier, which copies
into both; CUTLASS does so in the default scope, .cta (cutlass/arch/barrier.h, ClusterBarrier), since no thread's own
access is to be ordered.

So "ordered" means known by the clocks, and "ordered for the async proxy" means known by the fences too.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from ...core.scalars import Array, select

SHARED, GLOBAL = 0, 1  # which memory a proxy fence is for
FOREVER = np.int64(1 << 60)


def joined(a: Array, b: Array) -> Array:
    """The later of two rows, entry by entry; engines that one of them has not heard of are at 0."""
    short, long = (a, b) if len(a) < len(b) else (b, a)
    result = long.copy()
    np.maximum(result[: len(short)], short, out=result[: len(short)])
    return result


def learn(table: Array, threads: Array, row: Array) -> None:
    """The rows of these (sorted) threads become what they are joined with a row that may be shorter."""
    sel = select(threads)  # rows that lie together are a view: no copies
    part = table[sel, : len(row)]
    np.maximum(part, row, out=part)
    if not isinstance(sel, slice):
        table[sel, : len(row)] = part


class AsyncClocks:
    """The matrices of one batch; `domains` CTAs (or clusters) of `padded` threads each."""

    def __init__(self, domains: int, padded: int) -> None:
        self.padded = padded
        self.width = 2 * padded + 8
        self.matrix = np.zeros((domains * padded, self.width), np.int64)
        self.changes = 0  # so often has anything here become another
        self.columns: list[dict[Hashable, int]] = [{} for _ in range(domains)]
        self.acquired: Array | None = None  # made when needed
        self.observed: Array | None = None  # like the matrix; made when needed

    def engine(self, domain: int, key: Hashable) -> int:
        """The column of an async engine of this domain."""
        columns = self.columns[domain]
        if key not in columns:
            columns[key] = 2 * self.padded + len(columns)
            if columns[key] >= self.width:
                self.changes += 1
                self.matrix = np.pad(self.matrix, ((0, 0), (0, self.width)))
                self.width *= 2
        return columns[key]

    def fence(self, threads: Array, now: int, memory: int) -> None:
        """A proxy fence: these threads' own accesses before `now` are in order with the async proxy."""
        self.changes += 1
        self.matrix[threads, memory * self.padded + threads % self.padded] = now

    def acquire(self, threads: Array) -> None:
        """These threads may access what they know others to have fenced, in shared memory of other CTAs as well."""
        self.changes += 1
        if self.acquired is None:
            self.acquired = np.zeros((len(self.matrix), self.padded), np.int64)
        self.acquired[threads] = self.matrix[threads, SHARED * self.padded : (SHARED + 1) * self.padded]

    def fences(self, threads: Array, cta: int) -> Array:
        """Up to which stamp generic accesses to shared memory, by each thread of the domain, are in order for all of
        these threads of one CTA, which has `cta` threads."""
        known: Array = self.matrix[select(threads), SHARED * self.padded : (SHARED + 1) * self.padded].min(axis=0)
        if cta == self.padded:
            return known
        far = np.arange(self.padded) // cta != threads[0] % self.padded // cta
        acquired = 0 if self.acquired is None else self.acquired[threads].min(axis=0)
        return np.where(far, np.minimum(known, acquired), known)

    def complete(self, threads: Array, column: int, steps: Array | int) -> None:
        """These threads have seen an async engine finish this many steps."""
        self.changes += 1
        sel = select(threads)
        self.matrix[sel, column] = np.maximum(self.matrix[sel, column], steps)

    def observe(self, threads: Array, row: Array | None) -> None:
        """These threads see that another CTA's have gone on, whose clock of engines this is."""
        if row is None:
            return
        self.changes += 1
        if self.observed is None:
            self.observed = np.zeros_like(self.matrix)
        if self.observed.shape != self.matrix.shape:
            self.observed = np.pad(self.observed, ((0, 0), (0, self.width - self.observed.shape[1])))
        engines = slice(2 * self.padded, len(row))
        self.observed[threads, engines] = np.maximum(self.observed[threads, engines], row[engines])

    def meet(self, threads: Array) -> None:
        """These threads (of one domain) all know what each of them knows."""
        self.changes += 1
        sel = select(threads)
        self.matrix[sel] = self.matrix[sel].max(axis=0)

    def take(self, threads: Array) -> Array:
        """What these threads know together."""
        row: Array = self.matrix[select(threads)].max(axis=0)
        return row

    def give(self, threads: Array, row: Array) -> None:
        """These threads learn a row."""
        self.changes += 1
        learn(self.matrix, threads, row)

    def common(self, threads: Array, observed: bool = False) -> Array:
        """What every one of these threads knows, or has `observed` to be over."""
        sel = select(threads)
        known = self.matrix[sel]
        if observed and self.observed is not None:
            seen = self.observed[sel]
            known = known.copy()
            np.maximum(known[:, : seen.shape[1]], seen, out=known[:, : seen.shape[1]])
        row: Array = known.min(axis=0)
        return row
