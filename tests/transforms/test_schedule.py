"""Loops with schedules of the user's own: `check_schedule`, `skew` and `software_pipeline` against the loop as written.
What `check_schedule` lets through must compute the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from minitile.ir.core import Kernel
from minitile.ir.diagnostics import IRError, LanguageError
from minitile.ir.ops import control
from minitile.ir.parser import parse_kernel
from minitile.ir.verifier import verify
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.skew import skew
from minitile.transforms.pipeline.software_pipeline import software_pipeline
from minitile.transforms.schedule.verify import check_schedule
from tests.transforms.agree import agree, count, run

RANDOM = np.random.default_rng(7)
A, B = (RANDOM.integers(-4, 5, size=(40, 8)).astype(np.float32) for _ in range(2))
P = RANDOM.integers(0, 9, size=(40,)).astype(np.int32)
TILE = "{shape = (4, 8), src_dims = (0, 1), dst_dims = (0, 1)}"
DIMS = "{shape = (4, 8), dims = (0, 1)}"
PASSES = (check_schedule, skew, software_pipeline)

# A running sum %c of A's rows is handed on through registers, and through the shared buffer W; %x counts.
BODY = f"""
  %row = mul %k, 4
  statement {{number = 0}}
  copy %A[%row, 0], %S[0, 0] {TILE}
  statement {{number = 1}}
  %s = load %S[0, 0] {DIMS}
  %c1 = add %c, %s
  statement {{number = 2}}
  %two = mul %c1, 2.0
  store %W[0, 0], %two {{dims = (0, 1)}}
  statement {{number = 3}}
  %at = load %P[%k] {{shape = (), dims = (none)}}
  copy %B[%at, 0], %T[0, 0] {TILE}
  %x1 = add %x, 1
  statement {{number = 4}}
  %t = load %T[0, 0] {DIMS}
  %w = load %W[0, 0] {DIMS}
  %f = cast %x1 {{to = f32}}
  %tw = add %t, %w
  %tx = add %tw, %f
  %d1 = add %d, %tx
  statement {{number = 5}}
  %row1 = mul %k, 4
  store %C[%row1, 0], %d1 {{dims = (0, 1)}}
  yield %c1, %d1, %x1
"""


def text(order: tuple[int, ...], stage: tuple[int, ...], body: str = BODY, bounds: str = "0, %n, 1") -> str:
    return f"""
    tile kernel @k(%A: tensor<40x8xf32>, %B: tensor<40x8xf32>, %P: tensor<40xi32>, %C: tensor<40x8xf32>, %n: i32) {{
      launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        %S = alloc {{type_ = shared<4x8xf32>}}
        %T = alloc {{type_ = shared<4x8xf32>}}
        %W = alloc {{type_ = shared<4x8xf32>}}
        %z = splat 0.0 {{shape = (4, 8)}}
        %p, %q, %r = for {bounds}, [%z, %z, 0] {{kind = "pipelined", stages = 2, order = {order}, stage_of = {stage}}}
            (%k: i32, %c: tile<4x8xf32>, %d: tile<4x8xf32>, %x: i32) {{ {body} }}
        %y = cast %r {{to = f32}}
        %pq = add %p, %q
        %py = add %pq, %y
        store %C[36, 0], %py {{dims = (0, 1)}}
      }}
    }}"""


def check(order: tuple[int, ...], stage: tuple[int, ...], n: int = 5, **more: str) -> Kernel:
    arrays = {"A": A, "B": B, "P": P, "C": np.zeros((40, 8), np.float32)}
    return agree(text(order, stage, **more), PASSES, arrays, n=n)


@pytest.mark.parametrize("n", range(7))
def test_two_stages(n: int) -> None:
    """The second half an iteration behind, in front of the first half of the next one."""
    after = check((-1, 4, 5, -1, 1, 2), (-1, 0, 0, -1, 1, 1), n)
    assert count(after, "async_copy") == 4  # both copies go ahead, before the loop and in it
    assert count(after, "statement") == 0


@pytest.mark.parametrize("bounds", ["0, 5, 1", "0, 1, 1", "0, 0, 1", "2, 9, 3", "%n, 9, 2", "9, %n, 1"])
def test_bounds_and_steps(bounds: str) -> None:
    check((-1, 4, 5, -1, 1, 2), (-1, 0, 0, -1, 1, 1), 1, bounds=bounds)


def test_in_one_stage_the_body_is_sorted() -> None:
    body = BODY.replace("load %W", "load %S")
    after = check((-1, 1, 9, -1, 3, 4), (-1, 0, 0, -1, 0, 0), body=body)
    (loop,) = [op for op in after.walk() if isinstance(op, control.For)]
    assert [op.mnemonic for op in loop.body.ops if op.mnemonic in ("load", "store")][-2:] == ["store", "store"]
    assert loop.order is None


def test_copies_in_the_least_stage_go_ahead() -> None:
    """As TileLang numbers stages where no other operation is in that of the copies."""
    after = check((0, 3, 4, 1, 5, 6), (0, 1, 1, 0, 1, 1))
    assert count(after, "async_copy") == 4
    assert count(after, "if") == 2  # the guards of the copies


@pytest.mark.parametrize("stage", [(0, 2), (0, 3), (2, 5)])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7])
def test_stages_apart(stage: tuple[int, int], n: int) -> None:
    """The second half two or three iterations behind, and no operation in the stages between."""
    a, b = stage
    body = BODY.replace("load %W[0, 0]", "load %T[0, 0]")  # what goes through W could not be so late
    after = check((-1, 4, 5, -1, 1, 2), (-1, a, a, -1, b, b), n, body=body)
    assert count(after, "for") == 2  # the steady loop, and the loop as it was for fewer iterations than stages


CHAIN = f"""
  %row = mul %k, 4
  statement {{number = 0}}
  copy %A[%row, 0], %S[0, 0] {TILE}
  statement {{number = 1}}
  %s = load %S[0, 0] {DIMS}
  %c1 = add %c, %s
  statement {{number = 2}}
  %two = mul %c1, 2.0
  %both = add %two, %d
  statement {{number = 3}}
  %at = load %P[%k] {{shape = (), dims = (none)}}
  copy %B[%at, 0], %T[0, 0] {TILE}
  %x1 = add %x, 1
  statement {{number = 4}}
  %t = load %T[0, 0] {DIMS}
  %tb = add %t, %both
  statement {{number = 5}}
  %f = cast %x1 {{to = f32}}
  %d1 = add %tb, %f
  %row1 = mul %k, 4
  store %C[%row1, 0], %d1 {{dims = (0, 1)}}
  yield %c1, %t, %x1
"""


@pytest.mark.parametrize("bounds", ["0, %n, 1", "2, 9, 2", "%n, 7, 3"])
@pytest.mark.parametrize(
    ("order", "stage"),
    [
        ((-1, 0, 2, -1, 1, 3), (-1, 0, 1, -1, 2, 3)),
        ((-1, 3, 2, -1, 1, 0), (-1, 0, 1, -1, 2, 3)),
        ((-1, 2, 3, -1, 1, 0), (-1, 0, 1, -1, 2, 3)),
        ((-1, 2, 3, -1, 4, 5), (-1, 0, 2, -1, 2, 2)),
        ((-1, 0, 2, -1, 1, 3), (-1, 0, 2, -1, 3, 3)),
    ],
)
def test_three_and_four_stages(order: tuple[int, ...], stage: tuple[int, ...], bounds: str) -> None:
    """%d is handed on from a later stage than the one that is used with it."""
    for n in range(7):
        check(order, stage, n, body=CHAIN, bounds=bounds)


def test_random_schedules_of_four_stages() -> None:
    """What is let through is right, and what is refused would be wrong."""
    rng = np.random.default_rng(11)
    accepted = 0
    for _ in range(30):
        stage, places = sorted(rng.integers(0, 4, 4).tolist()), rng.permutation(4).tolist()
        order = (-1, places[0], places[1], -1, places[2], places[3])
        stages = (-1, stage[0], stage[1], -1, stage[2], stage[3])
        try:
            check_schedule(parse_kernel(text(order, stages, CHAIN)), PassContext())
        except LanguageError:
            assert differs(order, stages, CHAIN), (order, stages)
            continue
        accepted += 1
        for n in (0, 1, 2, 5):
            check(order, stages, n, body=CHAIN)
    assert accepted == 6


@pytest.mark.slow
def test_all_schedules_of_four() -> None:
    """All that is let through is right, and what is refused would be wrong."""
    accepted = 0
    for stage, places in itertools.product(itertools.product((0, 1), repeat=4), itertools.permutations(range(4))):
        order = (-1, places[0], places[1], -1, places[2], places[3])
        stages = (-1, stage[0], stage[1], -1, stage[2], stage[3])
        try:
            check_schedule(parse_kernel(text(order, stages)), PassContext())
        except LanguageError:
            assert differs(order, stages), (order, stages)
            continue
        accepted += 1
        for n in (0, 1, 4):
            check(order, stages, n)
    assert accepted == 15


def differs(order: tuple[int, ...], stage: tuple[int, ...], body: str = BODY) -> bool:
    """Whether the loop, written by a schedule all the same, uses what is not there yet, or computes something else."""
    arrays = {"A": A, "B": B, "P": P, "C": np.zeros((40, 8), np.float32)}
    kernel = parse_kernel(text(order, stage, body))
    expected = run(kernel, arrays, {"n": 4})
    skew(kernel, PassContext())
    try:
        verify(kernel)
    except IRError:
        return True
    return not np.array_equal(run(kernel, arrays, {"n": 4})["C"], expected["C"], equal_nan=True)


def written(kernel: Kernel) -> None:
    check_schedule(kernel, PassContext())
    skew(kernel, PassContext())


def wrong(order: tuple[int, ...], stage: tuple[int, ...], message: str, body: str = BODY) -> None:
    kernel = parse_kernel(text(order, stage, body))
    with pytest.raises(LanguageError, match=message) as caught:
        written(kernel)
    assert caught.value.loc is not None


def test_what_is_refused() -> None:
    ahead = (-1, 0, 0, -1, 0, 0)
    wrong((-1, 2, 1, -1, 3, 4), ahead, r"`mul`.*\(entry 2\) needs what `add`.*\(entry 1\) makes of the same iteration")
    wrong((-1, 1, 3, -1, 2, 4), ahead, r"`load`.*\(entry 4\) uses W after `store`")
    wrong((-1, 1, 2, -1, 3, 4), (-1, 0, 0, -1, 1, 1), r"`store`.*\(entry 2\) uses W after `load`.*iteration before")
    wrong((-1, -1, 2, -1, 3, 4), (-1, -1, 0, -1, 0, 0), "entry 1 .*has -1")
    wrong((5, 1, 2, -1, 3, 4), (1, 0, 0, -1, 1, 1), r"reads what `copy`.*\(entry 0\) copies")
    wrong((-1, 1, 2, -1, 3, 4), ahead, "R is allocated in a loop", "%R = alloc {type_ = shared<4x8xf32>}" + BODY)
    late = BODY.replace("load %T[", "load %S[")
    wrong((-1, 0, 3, -1, 1, 2), (-1, 0, 0, -1, 1, 1), "when the next copy has overwritten it", late)
