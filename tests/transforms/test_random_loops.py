"""Random loops by random legal schedules: `verify` accepts what keeps every edge of the graph, and what `Expansion`
writes computes the same, for any number of iterations, with copies landing as late and as early as they may.

A loop is a list of operations on tiles, on two shared buffers, on one of three versions that an asynchronous copy
fills, on tensors, and on values that are handed on. Each operation has a place of its own, in stages from two ahead to
six behind; what is ahead is guarded, or kept where it only computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import control, tile
from minitile.ir.parser import parse_kernel
from minitile.ir.types import ScalarType
from minitile.ir.verifier import verify as verify_ir
from minitile.transforms.schedule.expand import Expansion
from minitile.transforms.schedule.graph import Body
from minitile.transforms.schedule.schedule import Line, Place, Schedule, Step
from minitile.transforms.schedule.verify import ScheduleError, verify, verify_line
from tests.transforms.agree import run

TILE = "{shape = (2, 4), src_dims = (0, 1), dst_dims = (0, 1)}"
DIMS = "{shape = (2, 4), dims = (0, 1)}"
ROWS = 2 * 16
RANDOM = np.random.default_rng(5)
A = RANDOM.integers(-4, 5, size=(ROWS, 4)).astype(np.float32)
MOST = 7  # iterations
# Without shrinking, which takes minutes: the text of a loop is short.
QUICK = {"derandomize": True, "suppress_health_check": list(HealthCheck), "phases": (Phase.explicit, Phase.generate)}


@dataclass
class Loop:
    """A loop as text: its body, and what it hands on."""

    body: str
    yields: tuple[str, str]
    bounds: str

    @property
    def text(self) -> str:
        return f"""
        tile kernel @k(%A: tensor<{ROWS}x4xf32>, %C: tensor<{ROWS}x4xf32>, %D: tensor<{ROWS}x4xf32>, %n: i32) {{
          launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
            %S = alloc {{type_ = shared<2x4xf32>}}
            %W = alloc {{type_ = shared<2x4xf32>}}
            %V = alloc {{type_ = shared<3 versions x 2x4xf32>}}
            %z = splat 0.0 {{shape = (2, 4)}}
            store %S[0, 0], %z {{dims = (0, 1)}}
            store %W[0, 0], %z {{dims = (0, 1)}}
            %p, %q, %r = for {self.bounds}, [%z, %z, 1] (%k: i32, %c: tile<2x4xf32>, %d: tile<2x4xf32>, %x: i32) {{
              %number = sub %k, 0
              %slot = floormod %k, 3
              %row = mul %k, 2
              %x1 = add %x, 3
              {self.body}
              yield {self.yields[0]}, {self.yields[1]}, %x1
            }}
            %s = load %S[0, 0] {DIMS}
            %w = load %W[0, 0] {DIMS}
            %y = cast %r {{to = f32}}
            %sums = add %p, %q
            %more = add %s, %w
            %all = add %sums, %more
            %last = add %all, %y
            store %D[0, 0], %last {{dims = (0, 1)}}
          }}
        }}"""


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    lines: list[str] = []
    tiles = ["%c", "%d"]

    def made(text: str) -> None:
        lines.append(f"%v{len(lines)} = {text}")
        tiles.append(f"%v{len(lines) - 1}")

    copied = draw(st.booleans())
    if copied:
        lines.append(f"%t = async_copy %A[%row, 0], %V[0, 0], dst_slot = %slot {TILE}")
        lines.append("%j = join %t")
        lines.append("wait %j")
    for _ in range(draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(["load", "copied", "read", "write", "add", "scale", "count", "out", "branch"]))
        value, other = draw(st.sampled_from(tiles)), draw(st.sampled_from(tiles))
        buffer = draw(st.sampled_from(["%S", "%W"]))
        if kind == "load":
            made(f"load %A[%row, 0] {DIMS}")
        elif kind == "copied" and copied:
            made(f"load %V[0, 0], slot = %slot {DIMS}")
        elif kind == "read":
            made(f"load {buffer}[0, 0] {DIMS}")
        elif kind == "write":
            lines.append(f"store {buffer}[0, 0], {value} {{dims = (0, 1)}}")
        elif kind == "scale":
            made(f"mul {value}, 0.5")
        elif kind == "count":
            lines.append(f"%f{len(lines)} = cast {draw(st.sampled_from(['%x', '%x1', '%k']))} {{to = f32}}")
            made(f"add {value}, %f{len(lines) - 1}")
        elif kind == "out":
            lines.append(f"store %C[%row, 0], {value} {{dims = (0, 1)}}")
        elif kind == "branch":
            lines.append(f'%b{len(lines)} = cmp %x, 9 {{predicate = "lt"}}')
            lines.append(
                f"if %b{len(lines) - 1} then {{ store {buffer}[0, 0], {value} {{dims = (0, 1)}} }} orelse {{ }}"
            )
        else:
            made(f"add {value}, {other}")
    yields = draw(st.sampled_from(tiles)), draw(st.sampled_from(tiles))
    bounds = draw(st.sampled_from(["0, %n, 1", "0, %n, 1", "1, %n, 1", "0, %n, 2"] if not copied else ["0, %n, 1"]))
    return Loop("\n".join(lines), yields, bounds)


def is_scalar(op: Op) -> bool:
    return op.pure and bool(op.results) and all(isinstance(r.type, ScalarType) for r in op.results)


def find(kernel: Kernel) -> tuple[Block, control.For]:
    for op in kernel.walk():
        for region in op.regions:
            for inner in region.ops:
                if isinstance(inner, control.For):
                    return region, inner
    raise AssertionError("there is a loop")


def may_be_ahead(op: Op) -> bool:
    """Whether it does nothing but copy, load from tensors, and compute."""
    return op.pure or isinstance(op, (tile.Load, tile.AsyncCopy, tile.Join))


def legal(draw: st.DrawFn, body: Body, ahead: bool) -> Line | None:
    """A random line that keeps every edge: stages as drawn, moved behind until they do; an order within. None where the
    edges of what has one stage in all go round."""
    stage = {op: draw(st.integers(-2 if ahead and may_be_ahead(op) else 0, 2)) for op in body.fixed}
    for _ in range(4 * len(stage)):
        late = [e for e in body.edges if stage[e.source] > stage[e.target] + e.distance]
        if not late:
            break
        for edge in late:
            stage[edge.target] = max(stage[edge.target], stage[edge.source] - edge.distance)
    else:
        return None
    if max(stage.values()) > 6 or any(s < 0 and not may_be_ahead(op) for op, s in stage.items()):
        return None
    left, line = list(body.fixed), Line()
    while left:
        before = {e.target for e in body.edges if stage[e.source] == stage[e.target] + e.distance and e.source in left}
        free = [op for op in left if op not in before]
        if not free:
            return None
        op = draw(st.sampled_from(free))
        left.remove(op)
        end = "peeled" if stage[op] >= 0 else "kept" if op.pure and draw(st.booleans()) else "guarded"
        if isinstance(op, tile.Join) and stage[op] < 0:
            end = "kept"
        line.append(Step(op, stage[op], end))
    return line


def expand(block: Block, loop: control.For, line: Line) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        if op is loop:
            Expansion(b, loop, line).run()
        if op is not loop or all(step.stage <= 0 for step in line):
            b.emit(op)


@pytest.mark.parametrize("ahead", [False, True])
@settings(max_examples=60, deadline=None, **QUICK)
@given(data=st.data())
def test_what_is_accepted_is_right(ahead: bool, data: st.DataObject) -> None:
    loop_text = data.draw(loops())
    kernel = parse_kernel(loop_text.text)
    verify_ir(kernel)
    block, loop = find(kernel)
    free = {op for op in loop.body.ops if is_scalar(op)}
    line = legal(data.draw, Body(loop, each=True, free=free), ahead)
    assume(line is not None)
    verify_line(loop, line, free, versions=3)
    expand(block, loop, line)
    verify_ir(kernel)
    for n in range(MOST + 1):
        arrays = {"A": A, "C": np.zeros((ROWS, 4), np.float32), "D": np.zeros((2, 4), np.float32)}
        arrays["D"] = np.zeros((ROWS, 4), np.float32)
        expected = run(parse_kernel(loop_text.text), arrays, {"n": n})
        for landing in ("late", "early"):
            found = run(kernel, arrays, {"n": n}, landing)
            for name in ("C", "D"):
                np.testing.assert_array_equal(found[name], expected[name], f"{name}, {n} iterations, {landing}")


def test_a_branch_whose_side_is_known_keeps_all_of_it() -> None:
    """`%x < 9` folds in the first round, which is peeled; the side that is taken has no yield at its end."""
    branch = "if %b then { store %S[0, 0], %v {dims = (0, 1)} } orelse { }"
    read, test = f"%v = load %A[%row, 0] {DIMS}", '%b = cmp %x, 9 {predicate = "lt"}'
    body = f"{read}\n{test}\n{branch}\nstore %C[%row, 0], %v {{dims = (0, 1)}}"
    text = Loop(body, ("%c", "%d"), "0, %n, 1").text
    kernel = parse_kernel(text)
    block, loop = find(kernel)
    free = {op for op in loop.body.ops if is_scalar(op)}
    line = Line(Step(op, isinstance(op, tile.Store), "peeled") for op in Body(loop, each=True, free=free).fixed)
    verify_line(loop, line, free, versions=3)
    expand(block, loop, line)
    for n in range(MOST + 1):
        arrays = [{"A": A, "C": np.zeros((ROWS, 4), np.float32), "D": np.zeros((ROWS, 4), np.float32)} for _ in "ab"]
        expected, found = run(parse_kernel(text), arrays[0], {"n": n}), run(kernel, arrays[1], {"n": n}, "late")
        np.testing.assert_array_equal(found["D"], expected["D"], f"{n} iterations")


@settings(max_examples=150, deadline=None, **QUICK)
@given(data=st.data())
def test_a_broken_edge_is_refused(data: st.DataObject) -> None:
    """Two operations of a legal schedule exchange their places: where an edge no longer holds, `verify` says so."""
    kernel = parse_kernel(data.draw(loops()).text)
    _, loop = find(kernel)
    body = Body(loop, each=True, free={op for op in loop.body.ops if is_scalar(op)})
    line = legal(data.draw, body, ahead=False)
    assume(line is not None and len(line) > 1)
    places = {step.op: Place(step.stage, n) for n, step in enumerate(line)}
    one, other = (data.draw(st.sampled_from(body.fixed)) for _ in range(2))
    places[one], places[other] = places[other], places[one]

    def when(op: Op, later: int) -> tuple[int, int]:
        return places[op].stage + later, places[op].order

    broken = [e for e in body.edges if e.source is not e.target and when(e.source, 0) >= when(e.target, e.distance)]
    schedule = Schedule(tuple([places[op] for op in body.unit]))
    if broken:
        with pytest.raises(ScheduleError):
            verify(body, schedule)
    else:
        verify(body, schedule)
