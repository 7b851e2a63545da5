"""What a pipelined loop of one gemm consists of, by tags: which (i, kp) or (j, kp) each read of shared memory feeds,
which copies fill what it reads, and the tokens that tell when they have landed.

    wait %flight                                       flights   [%flight]: one token for each tile under way
    %a = load_mem %As …      : regs<32xbf16>           reads     ("a", i, kp) -> registers of a load
    %b = load_mem %Bs …      : regs<64xbf16>                     ("b", j, kp) -> registers of a load
    %c1 = mma_sync %a, %b, %c {repeats = (4, 8, 1),    products  one for each kp, which is in `origin`
                               origin = (0, 0, 0)}
    %t = cp_async … -> %As                             copies    in the order in which they stand
    %j = join %t, …                                    join
    yield %cn, %j

The tags follow from what the operations say of themselves: an operand's registers are in the order of its atoms, and
the registers of a load in the order of its accesses. Nothing is concluded from where an operation stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import cdna, control, thread, tile
from minitile.ir.rewrite import remake
from minitile.ir.types import TokenType

Fragment = tuple[str, int, int]  # operand "a" or "b"; its i or j; kp
Register = tuple[Value, int]  # a register of a value
Read = thread.LoadMem | thread.LdMatrix
Access = tuple[Read, int]  # the n-th instruction of a load
NARROWEST = 8  # bytes that an instruction reads a lane


class Refusal(Exception):
    """Why a loop cannot be interleaved, for a note."""


@dataclass(eq=False)
class Loop:
    """A loop in its parts. `counts`: mfma instructions along (i, j, kp) of the wave's tile. `pure`: what neither reads
    nor multiplies, in order. `before`: the copies of the tiles that are under way when the loop starts, and the joins
    that collect them, a list for each tile."""

    op: control.For
    products: list[thread.MmaSync]
    counts: tuple[int, int, int]
    fragments: dict[Fragment, list[Register]]
    loads: dict[Value, Read]
    wait: tile.Wait
    flights: list[Value]
    copies: list[thread.CpAsync]
    join: tile.Join
    pure: list[Op]
    before: list[tuple[tile.Join, list[thread.CpAsync]]] = field(default_factory=list)

    @property
    def next_of(self) -> dict[Value, Value]:
        """What each carried value is in the next iteration."""
        return dict(zip(self.op.carried, self.op.body.yielded, strict=True))

    @property
    def versions(self) -> int:
        return len(self.flights) + 1

    def words(self, load: Read) -> int:
        """How many 32-bit registers an instruction of a load fills."""
        return self.elements[load] * load.dtype.bits // 32

    def accesses(self, wanted: list[Fragment]) -> list[Access]:
        """The reads that fragments are made of, each once, in the order in which they are asked for."""
        known = self.access_of
        return list(dict.fromkeys([known[r] for f in wanted for r in self.fragments[f] if r in known]))

    @cached_property
    def access_of(self) -> dict[Register, Access]:
        """The read that fills a register, of those that the fragments are made of."""
        every = {r for registers in self.fragments.values() for r in registers if r[0] in self.loads}
        return {(v, n): (load, n // self.elements[load]) for v, n in every for load in [self.loads[v]]}

    @cached_property
    def elements(self) -> dict[Read, int]:
        """How many registers of its result an instruction of each load fills."""
        return {load: thread.count_of(load.result.type) // len(load.offsets) for load in self.loads.values()}


def only(load: Read, number: int, f: Callable[[Value], Value]) -> Read:
    """One instruction of a load, on the operands f(v)."""
    new = remake(load, f)
    new.address_of, new.offsets = (load.address_of[number],), (load.offsets[number],)
    for name in {"count", "words"} & load.attributes().keys():
        setattr(new, name, getattr(load, name) // len(load.offsets))
    new.set_results(new.infer())
    return new


def find_loop(op: control.For, outside: Block) -> Loop | None:
    """The parts of a loop in `outside`; None for one that does not multiply what it copies. Raises Refusal for one that
    does, but is not of the form above."""
    ops = op.body.ops
    products = [o for o in ops if isinstance(o, thread.MmaSync)]
    copies = [o for o in ops if isinstance(o, thread.CpAsync)]
    scheduled = any(isinstance(o, cdna.SchedBarrier) for o in ops)
    if not products or not copies or not all(c.wave for c in copies) or scheduled:
        return None
    if any(o.regions for o in ops):
        raise Refusal("there is control flow in it")
    counts = _check_products(products)
    loads = {o.result: o for o in ops if isinstance(o, Read)}
    wait, flights, join = _find_flights(op, copies)
    fragments = _find_fragments(products, counts, loads)
    known: set[Op] = {*products, *copies, *loads.values(), wait, join}
    pure = [o for o in ops if o not in known and not o.terminator]
    _check_rest(op, pure, loads, products)
    found = Loop(op, products, counts, fragments, loads, wait, flights, copies, join, [], [])
    _check_loads(found)
    moved = _only_for(pure, products, set(loads))
    found.pure = [o for o in pure if o not in moved]
    found.before = _find_before(op, flights, outside)
    return found


def _check_products(products: list[thread.MmaSync]) -> tuple[int, int, int]:
    """The counts of a chain of multiplications, each of another kp, into one accumulator."""
    first = products[0]
    if any((p.atom, p.repeats) != (first.atom, first.repeats) or p.repeats[2] != 1 for p in products):
        raise Refusal("it multiplies more than one pair of tiles")
    places = [p.origin for p in products]
    if sorted(places) != [(0, 0, kp) for kp in range(len(products))]:
        raise Refusal("it multiplies more than one pair of tiles")
    for previous, product in itertools.pairwise(products):
        if product.c is not previous.result:
            raise Refusal("something happens to the accumulator between two steps of K")
    return first.repeats[0], first.repeats[1], len(products)


def _find_flights(op: control.For, copies: list[thread.CpAsync]) -> tuple[tile.Wait, list[Value], tile.Join]:
    """The wait, the carried tokens from the oldest to the youngest, and the join that becomes the next one."""
    waits = [o for o in op.body.ops if isinstance(o, tile.Wait)]
    joins = [o for o in op.body.ops if isinstance(o, tile.Join)]
    if len(waits) != 1 or len(joins) != 1:
        raise Refusal("its copies are not awaited all at once")
    wait, join = waits[0], joins[0]
    next_of = dict(zip(op.carried, op.body.yielded, strict=True))
    flights = []
    token = wait.token
    while token in next_of and token not in flights:
        flights.append(token)
        token = next_of[token]
    tokens = [v for v in op.carried if isinstance(v.type, TokenType)]
    if token is not join.result or sorted(flights, key=tokens.index) != tokens:
        raise Refusal("its copies are not awaited in the order in which they are issued")
    if set(join.tokens) != {c.result for c in copies}:
        raise Refusal("it waits for something else besides its copies")
    return wait, flights, join


def _find_fragments(
    products: list[thread.MmaSync], counts: tuple[int, int, int], loads: dict[Value, Read]
) -> dict[Fragment, list[Register]]:
    found: dict[Fragment, list[Register]] = {}
    for product in products:
        kp = product.origin[2]
        for name, value, rows in (("a", product.a, counts[0]), ("b", product.b, counts[1])):
            each = thread.count_of(value.type) // rows
            for row in range(rows):
                registers = range(row * each, (row + 1) * each)
                found[name, row, kp] = [_root(value, n, loads) for n in registers]
    return found


def _root(value: Value, number: int, loads: dict[Value, Read]) -> Register:
    """Where a register comes from, through renaming; a load of the loop, or anything else as it is."""
    start = value, number
    while value not in loads:
        op = value.op
        if isinstance(op, thread.Pick):
            value, number = op.a, op.indices[number] if thread.count_of(op.a.type) > 1 else 0
        elif isinstance(op, thread.Concat):
            for part in op.values:
                size = thread.count_of(part.type)
                if number < size:
                    value = part
                    break
                number -= size
        else:
            return start
    return value, number


def _check_rest(op: control.For, pure: list[Op], loads: dict[Value, Read], products: Sequence[Op]) -> None:
    """What is left computes addresses: it has no effects and uses nothing that was multiplied."""
    late = {p.results[0] for p in products}
    for o in pure:
        if not o.pure:
            raise Refusal(f"there is {o.mnemonic} in it")
        if any(v in late for v in o.operands):
            raise Refusal("it goes on with the accumulator between multiplications")
    end = op.body.yielded
    last = products[-1].results[0]
    if any(v in late and v is not last for v in end) or any(v in loads for v in end):
        raise Refusal("it hands on more than the accumulator and tokens")


def _check_loads(loop: Loop) -> None:
    """Each instruction of a load is for one place of K, so that it belongs to a stage."""
    kp_of: dict[Access, int] = {}
    for fragment in loop.fragments:
        for access in loop.accesses([fragment]):
            if kp_of.setdefault(access, fragment[2]) != fragment[2]:
                raise Refusal("one read brings elements of two steps of K")
    for load in loop.loads.values():
        if getattr(load.mem.type, "space", "") != "shared" or getattr(load, "predicate", None) is not None:
            raise Refusal("it reads more than shared memory")
        if loop.words(load) * 4 < NARROWEST:
            raise Refusal(f"its reads are {loop.elements[load] * load.dtype.bits // 8} bytes wide")
        if any((load, n) not in kp_of for n in range(len(load.offsets))):
            raise Refusal("what it reads is not only multiplied")


def _only_for(pure: list[Op], products: list[thread.MmaSync], loads: set[Value]) -> set[Op]:
    """The renaming between loads and multiplications, which is done anew; nothing else may use it, or the loads."""
    moved: set[Op] = set()
    inner = set(loads)
    for o in pure:
        if any(v in inner for v in o.operands):
            if not isinstance(o, (thread.Pick, thread.Concat)):
                raise Refusal(f"{o.mnemonic} stands between the reads and the multiplications")
            inner.update(o.results)
            moved.add(o)
    return moved


def _find_before(op: control.For, flights: list[Value], outside: Block) -> list[tuple[tile.Join, list[thread.CpAsync]]]:
    """The copies of the tiles under way at the start, in front of the loop in the same block."""
    init = dict(zip(op.carried, op.init, strict=True))
    found = []
    for flight in flights:
        join = init[flight].op
        if not isinstance(join, tile.Join) or join not in outside.ops:
            raise Refusal("what is under way before it comes from elsewhere")
        copies = [t.op for t in join.tokens]
        if not all(isinstance(c, thread.CpAsync) and c in outside.ops for c in copies):
            raise Refusal("what is under way before it was not copied right there")
        found.append((join, copies))
    return found  # type: ignore[return-value]
