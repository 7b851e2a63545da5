"""Barriers against an oracle: random programs are run step by step, and an access to what another thread may
still be busy with is found. With the barriers there is none; without any one of them there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import MinitileError
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.parser import parse_kernel
from minitile.ir.verifier import verify
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.allocate_shared_memory import allocate_shared_memory
from minitile.transforms.sync.resolve_wait_counts import resolve_wait_counts
from minitile.transforms.sync.thread_barriers import thread_barriers

COPY = "{bytes = 16, dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)}"
STORE = '{space = "shared", address_of = (0,), offsets = (0,)}'
LOAD = '{space = "shared", dtype = f32, count = 1, address_of = (0,), offsets = (0,)}'
GLOBAL = '{space = "global", dtype = i32, count = 1, address_of = (0,), offsets = (0,)}'
VERSIONS = {"P": 1, "Q": 1, "S": 3, "T": 2}


# Programs -----------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes a random program in thread IR. Conditions and trip counts are loaded from %B: any, the same for all."""

    random: Random
    buffers: tuple[str, ...]
    asynchronous: bool
    names: int = 0
    lines: list[str] = field(default_factory=list)

    def new(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def emit(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def statements(self, depth: int, index: str | None, most: int = 3) -> None:
        for _ in range(self.random.randint(1, most)):
            kind = self.random.random()
            if kind < 0.55 or depth > 2:
                self.access(index)
            elif kind < 0.7:
                self.branch(depth, index)
            elif kind < 0.85 or not self.asynchronous:
                self.loop(depth)
            else:
                self.pipeline(depth)

    def slot(self, buffer: str, index: str | None) -> str:
        versions = VERSIONS[buffer]
        if versions == 1:
            return ""
        ahead = self.random.randrange(versions)
        if index is None:
            return f", slot = {ahead}"
        moved = self.emit(f"add {index}, {ahead}")
        return f", slot = {self.emit(f'floormod {moved}, {versions}')}"

    def access(self, index: str | None) -> None:
        buffer = self.random.choice(self.buffers)
        slot = self.slot(buffer, index)
        if self.random.random() < 0.5:
            self.lines.append(f"store_mem %s, 1.0, %{buffer}{slot} {STORE}")
        else:
            self.emit(f"load_mem %s, %{buffer}{slot} {LOAD}")

    def branch(self, depth: int, index: str | None) -> None:
        flag = self.emit(f"load_mem %g, %B {GLOBAL}")
        condition = self.emit(f'cmp {flag}, 0 {{predicate = "gt"}}')
        self.lines.append(f"if {condition} then {{")
        self.statements(depth + 1, index, 2)
        self.lines.append("} orelse {")
        if self.random.random() < 0.4:
            self.statements(depth + 1, index, 2)
        self.lines.append("}")

    def loop(self, depth: int) -> None:
        trips, index = self.emit(f"load_mem %g, %B {GLOBAL}"), self.new()
        self.lines.append(f"for 0, {trips}, 1 ({index}: i32) {{")
        self.statements(depth + 1, index)
        self.lines.append("}")

    def pipeline(self, depth: int) -> None:
        """Copies to a versioned buffer, one fewer ahead than there are versions."""
        buffer = self.random.choice([b for b in self.buffers if VERSIONS[b] > 1])
        versions = VERSIONS[buffer]
        trips, index = self.emit(f"load_mem %g, %B {GLOBAL}"), self.new()
        tokens = []
        for n in range(versions - 1):
            tokens.append(self.copy(buffer, str(n), self.emit(f'cmp {n}, {trips} {{predicate = "lt"}}')))
        args = [self.new() for _ in tokens]
        results = ", ".join(self.new() for _ in tokens)
        types = ", ".join("token" for _ in tokens)
        carried = ", ".join(f"{a}: token" for a in args)
        self.lines.append(
            f"{results} = for 0, {trips}, 1, [{', '.join(tokens)}] : {types} ({index}: i32, {carried}) {{"
        )
        self.lines.append(f"wait {args[0]}")
        ahead = self.emit(f"add {index}, {versions - 1}")
        inside = self.emit(f'cmp {ahead}, {trips} {{predicate = "lt"}}')
        token = self.copy(buffer, self.emit(f"floormod {ahead}, {versions}"), inside)
        others = Writer(self.random, tuple(b for b in self.buffers if b != buffer), False, self.names + 1000)
        if others.buffers and depth < 2:
            others.statements(depth + 2, index, 2)
            self.lines += others.lines
            self.names = others.names
        self.emit(f"load_mem %s, %{buffer}, slot = {self.emit(f'floormod {index}, {versions}')} {LOAD}")
        self.lines += [f"yield {', '.join([*args[1:], token])}", "}"]

    def copy(self, buffer: str, slot: str, condition: str) -> str:
        copied, none, result = self.new(), self.new(), self.new()
        self.lines.append(f"{result} = if {condition} : token then {{")
        self.lines.append(f"{copied} = cp_async %s, %g, %{buffer}, dst_slot = {slot}, %B {COPY}")
        self.lines += [f"yield {copied}", "} orelse {", f"{none} = no_token", f"yield {none}", "}"]
        return self.emit(f"join {result}")


def write(random: Random, buffers: tuple[str, ...], asynchronous: bool) -> Kernel:
    writer = Writer(random, buffers, asynchronous)
    writer.statements(0, None, 5)
    allocs = []
    for name in buffers:
        versions = f"{VERSIONS[name]} versions x " if VERSIONS[name] > 1 else ""
        allocs.append(f"%{name} = alloc {{type_ = shared<{versions}64xf32>}}")
    body = "\n".join([*allocs, f"%s = buffer_address %{buffers[0]}", "%g = global_address %B", *writer.lines])
    kernel = parse_kernel(f"thread kernel @k(%B: tensor<64xi32>) attrs {{threads = 96}} {{\n{body}\n}}")
    verify(kernel)
    return kernel


# The oracle ---------------------------------------------------------------------------------------------------------

Bytes = range


class Race(Exception):
    pass


class Run:
    """One run: what has been touched since the last barrier, which tokens stand for which writes."""

    def __init__(self, random: Random, without: Op | None) -> None:
        self.random = random
        self.without = without
        self.values: dict[Value, object] = {}
        self.touched: list[tuple[bool, Value, Bytes]] = []

    def block(self, block: Block) -> list[object]:
        for op in block.ops:
            if op.terminator:
                return [self.values.get(v) for v in op.operands]
            self.op(op)
        return []

    def op(self, op: Op) -> None:
        if op is self.without:
            return
        if isinstance(op, thread.Barrier):
            self.touched.clear()
        elif isinstance(op, tile.Wait):
            self.touched += self.values[op.token]  # type: ignore[operator, arg-type]
        elif isinstance(op, tile.Join):
            self.values[op.result] = [w for t in op.tokens for w in self.values[t]]  # type: ignore[attr-defined]
        elif isinstance(op, tile.NoToken):
            self.values[op.result] = []
        elif isinstance(op, control.For):
            self.loop(op)
        elif isinstance(op, control.If):
            self.give(op.results, self.block(op.then if self.values[op.condition] else op.orelse))
        elif op.pure:
            self.compute(op)
        else:
            self.access(op)

    def give(self, targets: tuple[Value, ...], values: list[object]) -> None:
        self.values.update(zip(targets, values, strict=True))

    def loop(self, op: control.For) -> None:
        carried = [self.values[v] for v in op.init]
        for k in range(self.values[op.lower], self.values[op.upper]):  # type: ignore[arg-type]
            self.values[op.iv] = k
            self.give(op.carried, carried)
            carried = self.block(op.body)
        self.give(op.results, carried)

    def compute(self, op: Op) -> None:
        compute: dict[type[Op], Callable[[int, int], object]] = {
            arith.Add: lambda a, b: a + b,
            arith.FloorMod: lambda a, b: a % b,
        }
        if isinstance(op, arith.Constant):
            self.values[op.result] = op.value
        elif isinstance(op, arith.Cmp):
            a, b = (self.values[v] for v in op.operands)
            self.values[op.result] = a < b if op.predicate == "lt" else a > b  # type: ignore[operator]
        elif type(op) in compute:
            self.values[op.result] = compute[type(op)](*[self.values[v] for v in op.operands])  # type: ignore[arg-type]

    def access(self, op: Op) -> None:
        for access in op.accesses():
            assert access.mem is not None
            if not isinstance(access.mem.owner, tile.Alloc):
                continue
            alloc = access.mem.owner
            at = 0 if access.slot is None else self.values[access.slot]
            start = (alloc.offset or 0) + at * 256 if alloc.offset is not None else at * 256  # type: ignore[operator]
            touch = (access.writes, access.mem, range(start, start + 256))
            if any(self.conflict(touch, other, alloc.offset is not None) for other in self.touched):
                raise Race
            if access.token is None:
                self.touched.append(touch)
            else:
                self.values[access.token] = [touch]
        if isinstance(op, thread.LoadMem) and op.space == "global":
            self.values[op.result] = self.random.randrange(4)

    def conflict(self, a: tuple[bool, Value, Bytes], b: tuple[bool, Value, Bytes], placed: bool) -> bool:
        same = placed or a[1] is b[1]
        return same and (a[0] or b[0]) and a[2].start < b[2].stop and b[2].start < a[2].stop


def races(kernel: Kernel, without: Op | None = None, runs: int = 60) -> bool:
    for seed in range(runs):
        try:
            Run(Random(seed), without).block(kernel.body)
        except Race:
            return True
    return False


def barriers(kernel: Kernel) -> Iterator[Op]:
    return (op for op in kernel.walk() if isinstance(op, thread.Barrier))


# Tests --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_no_races(seed: int) -> None:
    random = Random(seed)
    kernel = write(random, ("P", "Q", "S", "T"), True)
    if random.random() < 0.5:
        allocate_shared_memory(kernel, PassContext())
    thread_barriers(kernel, PassContext())
    verify(kernel)
    assert not races(kernel), kernel


@pytest.mark.parametrize("seed", range(25))
def test_each_barrier_is_needed(seed: int) -> None:
    kernel = write(Random(seed), ("P", "Q"), False)
    thread_barriers(kernel, PassContext())
    assert not races(kernel), kernel
    for barrier in barriers(kernel):
        assert races(kernel, barrier, 200), f"{kernel}\n{list(barriers(kernel)).index(barrier)}"


def test_the_oracle_sees_races() -> None:
    found = [races(write(Random(seed), ("P", "Q", "S", "T"), True)) for seed in range(40)]
    assert sum(found) > 20


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_one_barrier_per_stage_of_a_pipeline(stages: int) -> None:
    VERSIONS["V"] = stages
    writer = Writer(Random(0), ("V",), True)
    writer.pipeline(0)
    body = "\n".join(writer.lines)
    kernel = parse_kernel(f"""thread kernel @k(%B: tensor<64xi32>) attrs {{threads = 96}} {{
        %V = alloc {{type_ = shared<{stages} versions x 64xf32>}}
        %s = buffer_address %V
        %g = global_address %B
        {body}
    }}""")
    thread_barriers(kernel, PassContext())
    resolve_wait_counts(kernel, PassContext())
    assert len(list(barriers(kernel))) == 1
    (loop,) = (op for op in kernel.walk() if isinstance(op, control.For))
    kinds = [type(op) for op in loop.body.ops if not op.pure]
    assert kinds[:3] == [tile.Wait, thread.Barrier, control.If]
    assert [op.pending for op in kernel.walk() if isinstance(op, tile.Wait)] == [stages - 2]
    assert not races(kernel)


def test_a_barrier_among_some_threads_is_an_error() -> None:
    kernel = parse_kernel("""thread kernel @k() attrs {threads = 96} {
        %t = special {register = "tid.x"}
        %some = cmp %t, 40 {predicate = "lt"}
        if %some then {
          barrier
        } orelse {
        }
    }""")
    with pytest.raises(MinitileError, match="not all threads come here") as caught:
        thread_barriers(kernel, PassContext())
    assert caught.value.loc is not None
    assert caught.value.loc.line == 5


@pytest.mark.parametrize("same", [False, True])
def test_what_lowering_marks_as_the_same_keeps_threads_together(same: bool) -> None:
    kernel = parse_kernel(f"""thread kernel @k() attrs {{threads = 32}} {{
        %S = alloc {{type_ = shared<64xf32>}}
        %s = buffer_address %S
        %t = special {{register = "tid.x"}}
        %other = shuffle_xor %t {{mask = 1}}
        %both = add %t, %other
        %all = pick %both {{indices = (0,), same = {str(same).lower()}}}
        %p = cmp %all, 40 {{predicate = "lt"}}
        if %p then {{
          store_mem %s, 1.0, %S {STORE}
          %x = load_mem %s, %S {LOAD.replace("(0,)}", "(4,)}")}
        }} orelse {{
        }}
    }}""")
    if same:
        thread_barriers(kernel, PassContext())
        assert len(list(barriers(kernel))) == 1
        return
    with pytest.raises(MinitileError, match="no barrier can stand between"):
        thread_barriers(kernel, PassContext())
