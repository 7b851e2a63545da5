"""`software_pipeline` against the loop as written, with copies landing as late and as early as they may."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from minitile.ir.core import Kernel
from minitile.ir.ops import control, tile
from minitile.ir.parser import parse_kernel
from minitile.ir.verifier import verify as verify_ir
from minitile.target import TARGETS
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.software_pipeline import software_pipeline
from minitile.transforms.schedule import verify as checks
from minitile.transforms.schedule.graph import Body
from minitile.transforms.schedule.schedule import Schedule
from minitile.transforms.schedule.verify import ScheduleError
from minitile.transforms.schedule.verify import verify as verify_schedule
from tests.transforms.agree import agree, count, run

RANDOM = np.random.default_rng(2)
A = RANDOM.integers(-4, 5, size=(40, 8)).astype(np.float32)
P = RANDOM.integers(0, 9, size=(40,)).astype(np.int32)
TILE = "{shape = (4, 8), src_dims = (0, 1), dst_dims = (0, 1)}"
DIMS = "{shape = (4, 8), dims = (0, 1)}"
USE = f"""%s = load %S[0, 0] {DIMS}
          %d = add %c, %s"""


def kernel(body: str) -> str:
    return f"""
    tile kernel @k(%A: tensor<40x8xf32>, %P: tensor<40xi32>, %C: tensor<40x8xf32>, %n: i32) {{
      launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        %S = alloc {{type_ = shared<4x8xf32>}}
        %T = alloc {{type_ = shared<4x8xf32>}}
        %z = splat 0.0 {{shape = (4, 8)}}
        {body}
      }}
    }}"""


def loop(body: str, stages: int = 3, bounds: str = "0, %n, 1", rest: str = "") -> str:
    return f"""%r = for {bounds}, [%z] {{kind = "pipelined", stages = {stages}{rest}}} (%k: i32, %c: tile<4x8xf32>) {{
          {body}
          yield %d
        }}
        store %C[0, 0], %r {{dims = (0, 1)}}"""


def check(body: str, n: int = 5) -> Kernel:
    """Also through registers, as where no copy goes by itself; the kernel is the one with copies that do."""
    arrays = {"A": A, "P": P, "C": np.zeros((40, 8), np.float32)}
    through_registers = agree(kernel(body), (software_pipeline,), arrays, target=TARGETS["gfx942"], n=n)
    assert not {"async_copy", "wait", "join"} & {op.mnemonic for op in through_registers.walk()}
    return agree(kernel(body), (software_pipeline,), arrays, n=n)


COPY = f"""%row = mul %k, 4
          copy %A[%row, 0], %S[0, 0] {TILE}"""


@pytest.mark.parametrize("trips", range(7))
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_dynamic_trip_counts(trips: int, stages: int) -> None:
    after = check(loop(f"{COPY}\n{USE}", stages), trips)
    assert f"{stages} versions x 4x8" in str(after)
    assert count(after, "async_copy") == stages
    assert count(after, "wait") == 1
    assert count(after, "copy") == 0


@pytest.mark.parametrize("bounds", ["0, 5, 1", "0, 1, 1", "0, 0, 1", "2, 9, 3", "%n, 9, 2", "9, %n, 1"])
def test_bounds_and_steps(bounds: str) -> None:
    check(loop(f"{COPY}\n{USE}", 3, bounds), n=1)


def test_order_in_the_body() -> None:
    """Wait, then the copies ahead, then the rest: one barrier behind the wait is enough."""
    after = check(loop(f"{COPY}\n{USE}"))
    (body,) = [op.body for op in after.walk() if isinstance(op, control.For)]
    order = [op.mnemonic for op in body.ops if op.mnemonic in ("wait", "if", "join", "load")]
    assert order == ["wait", "if", "join", "load"]


def test_constant_trip_count_needs_no_guard_before_the_loop() -> None:
    after = check(loop(f"{COPY}\n{USE}", 3, "0, 8, 1"))
    (launch,) = [op for op in after.walk() if isinstance(op, control.Launch)]
    assert not any(isinstance(op, control.If) for op in launch.body.ops)


def test_one_stage_is_left_alone() -> None:
    for stages in (0, 1):
        assert count(check(loop(f"{COPY}\n{USE}", stages)), "copy") == 1


def test_indices_and_conditions_are_computed_ahead() -> None:
    """The source row is loaded from memory, the copy and its use stand under a condition."""
    check(
        loop(
            f"""%q = load %P[%k] {{shape = (), dims = (none,)}}
          %row = mul %q, 4
          %two = floormod %k, 2
          %p = cmp %two, 0 {{predicate = "eq"}}
          if %p then {{
            %row1 = add %row, 1
            copy %A[%row1, 0], %S[0, 0] {TILE}
          }} orelse {{
          }}
          %at = if %p : i32 then {{
            %u = load %P[%row] {{shape = (), dims = (none,)}}
            yield %u
          }} orelse {{
            yield 7
          }}
          copy %A[%at, 0], %T[0, 0] {TILE}
          %d = if %p : tile<4x8xf32> then {{
            {USE}
            yield %d
          }} orelse {{
            %t = load %T[0, 0] {DIMS}
            %e = sub %c, %t
            yield %e
          }}"""
        )
    )


def test_one_buffer_from_two_sources() -> None:
    after = check(
        loop(
            f"""%row = mul %k, 4
          %p = cmp %k, 3 {{predicate = "lt"}}
          if %p then {{
            copy %A[%row, 0], %S[0, 0] {TILE}
          }} orelse {{
            copy %A[1, 0], %S[0, 0] {TILE}
          }}
          {USE}"""
        )
    )
    assert count(after, "copy") == 0


def test_two_halves() -> None:
    half = "{shape = (2, 8), src_dims = (0, 1), dst_dims = (0, 1)}"
    body = f"""%row = mul %k, 4
          copy %A[%row, 0], %S[0, 0] {half}
          copy %A[%row, 0], %S[2, 0] {half}
          {USE}"""
    after = check(loop(body))
    assert count(after, "copy") == 0
    assert count(after, "async_copy") == 6
    guarded = body.replace(
        f"copy %A[%row, 0], %S[2, 0] {half}",
        f"""%p = cmp %k, 2 {{predicate = "lt"}}
          if %p then {{
            copy %A[3, 0], %S[2, 0] {half}
          }} orelse {{
            copy %A[%row, 0], %S[2, 0] {half}
          }}""",
    )
    assert count(check(loop(guarded)), "async_copy") == 7


def test_other_copies_stay_when_one_can_not_go_ahead() -> None:
    """T is read before it is written: it hands data from one iteration to the next."""
    body = f"""%t = load %T[0, 0] {DIMS}
          %row = mul %k, 4
          copy %A[%row, 0], %S[0, 0] {TILE}
          %e = add %c, %t
          copy %A[%k, 0], %T[0, 0] {TILE}
          %s = load %S[0, 0] {DIMS}
          %d = add %e, %s"""
    after = check(f"store %T[0, 0], %z {{dims = (0, 1)}}\n{loop(body)}")
    assert count(after, "copy") == 1
    assert count(after, "async_copy") == 3


REFUSED = {
    "source computed from carried data": f"""%x = extract %c[0, 0]
          %m = cast %x {{to = i32}}
          %i = min %m, 5
          copy %A[%i, 0], %S[0, 0] {TILE}
          {USE}""",
    "condition computed in the loop": f"""%x = extract %c[0, 0]
          %p = cmp %x, 0.0 {{predicate = "ge"}}
          if %p then {{
            copy %A[%k, 0], %S[0, 0] {TILE}
          }} orelse {{
          }}
          %d = if %p : tile<4x8xf32> then {{
            {USE}
            yield %d
          }} orelse {{
            yield %c
          }}""",
    "read without the copy's condition": f"""%p = cmp %k, 1 {{predicate = "le"}}
          if %p then {{
            copy %A[%k, 0], %S[0, 0] {TILE}
          }} orelse {{
          }}
          {USE}""",
    "buffer also written by a store": f"""{COPY}
          %e = splat 2.0 {{shape = (8,)}}
          store %S[1, 0], %e {{dims = (none, 0)}}
          {USE}""",
    "source written in the loop": f"""{COPY}
          {USE}
          store %A[%row, 0], %d {{dims = (0, 1)}}""",
    "copied twice": f"""{COPY}
          {USE.replace("%d", "%e")}
          copy %A[1, 0], %S[0, 0] {TILE}
          %s2 = load %S[0, 0] {DIMS}
          %d = add %e, %s2""",
    "a second copy over the first": f"""{COPY}
          %p = cmp %k, 1 {{predicate = "le"}}
          if %p then {{
            copy %A[20, 0], %S[0, 0] {TILE}
          }} orelse {{
          }}
          {USE}""",
    "only a part is copied": f"""%row = floormod %k, 4
          copy %A[%k, 0], %S[%row, 0] {{shape = (1, 8), src_dims = (0, 1), dst_dims = (0, 1)}}
          {USE}""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_copies_that_stay_synchronous(reason: str) -> None:
    after = check("store %S[0, 0], %z {dims = (0, 1)}\n" + loop(REFUSED[reason]))
    assert count(after, "async_copy") == 0
    assert count(after, "copy") >= 1


def test_buffer_read_after_the_loop_stays() -> None:
    after = check(loop(f"{COPY}\n{USE}") + f"\n%q = load %S[0, 0] {DIMS}\nstore %C[4, 0], %q {{dims = (0, 1)}}")
    assert count(after, "async_copy") == 0


def test_buffer_written_before_and_read_after_the_loop_stays() -> None:
    after = check(
        "store %S[0, 0], %z {dims = (0, 1)}\n"
        + loop(f"{COPY}\n{USE}")
        + f"\n%q = load %S[0, 0] {DIMS}\nstore %C[4, 0], %q {{dims = (0, 1)}}"
    )
    assert count(after, "async_copy") == 0


def test_buffer_read_in_the_next_outer_round_stays() -> None:
    inner = loop(f"{COPY}\n{USE}")
    after = check(
        f"""store %S[0, 0], %z {{dims = (0, 1)}}
        for 0, 2, 1 (%o: i32) {{
          %q = load %S[0, 0] {DIMS}
          %row0 = mul %o, 4
          %row1 = add %row0, 8
          store %C[%row1, 0], %q {{dims = (0, 1)}}
          {inner}
          yield
        }}"""
    )
    assert count(after, "async_copy") == 0


def test_buffer_reused_after_the_loop() -> None:
    after = check(
        loop(f"{COPY}\n{USE}")
        + f"""
        store %S[0, 0], %r {{dims = (0, 1)}}
        for 0, 2, 1 (%i: i32) {{
          %q = load %S[0, 0] {DIMS}
          %row = mul %i, 8
          store %C[%row, 0], %q {{dims = (0, 1)}}
          yield
        }}"""
    )
    assert count(after, "async_copy") == 3


def test_nested_in_an_outer_loop() -> None:
    inner = loop(f"{COPY}\n{USE}").replace("store %C[0, 0]", "store %C[%row0, 0]")
    for n in (0, 1, 2, 5):
        check(f"for 0, 3, 1 (%o: i32) {{\n%row0 = mul %o, 4\n{inner}\nyield\n}}", n)


def test_two_loops_share_a_buffer() -> None:
    second = loop(f"{COPY}\n{USE}", 4).replace("%r ", "%r2 ").replace("[0, 0], %r2", "[8, 0], %r2")
    after = check(loop(f"{COPY}\n{USE}", 2) + "\n" + second)
    assert count(after, "async_copy") == 6
    assert "shared<4 versions x 4x8xf32>" in str(after)


def test_pipelined_loop_in_a_pipelined_loop() -> None:
    inner = f"""%rows = mul %l, 4
            copy %A[%rows, 0], %T[0, 0] {TILE}
            %t = load %T[0, 0] {DIMS}
            %s1 = load %S[0, 0] {DIMS}
            %m = mul %t, %s1
            %f = add %e, %m
            yield %f"""
    body = f"""{COPY}
          %d = for 0, %n, 1, [%c] {{kind = "pipelined", stages = 2}} (%l: i32, %e: tile<4x8xf32>) {{
            {inner}
          }}"""
    for n in (1, 3):
        after = check(loop(body), n)
        assert count(after, "async_copy") == 5


def test_gemm_reads_its_slot() -> None:
    body = f"""{COPY}
          copy %A[%k, 0], %T[0, 0] {TILE}
          %d = gemm %S[0, 0], %T[0, 0], %c {{transpose_b = true}}"""
    text = loop(body).replace("%z", "%y").replace("tile<4x8xf32>", "tile<4x4xf32>")
    after = check("%y = splat 0.0 {shape = (4, 4)}\n" + text)
    (gemm,) = [op for op in after.walk() if isinstance(op, tile.Gemm)]
    assert gemm.a_slot is gemm.b_slot is not None


def test_a_buffer_of_an_iteration_s_own() -> None:
    """What else is in the loop stays where it is."""
    own = f"%R = alloc {{type_ = shared<4x8xf32>}}\n{COPY}\n{USE}\nstore %R[0, 0], %d {{dims = (0, 1)}}"
    assert count(check(loop(own)), "async_copy") == 3


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_schedule_that_is_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop in its parts, one iteration after the other, is right as well; and a note says so."""
    refused = ScheduleError("versions", "planted")

    def refuse(body: Body, schedule: Schedule) -> None:
        raise refused

    monkeypatch.setattr(checks, "verify", refuse)
    context = PassContext(TARGETS[target])
    arrays = {"A": A, "P": P, "C": np.zeros((40, 8), np.float32)}
    text = kernel(loop(f"{COPY}\n{USE}"))
    expected = run(parse_kernel(text), arrays, {"n": 5})
    after = parse_kernel(text)
    software_pipeline(after, context)
    verify_ir(after)
    assert context.notes == ["copies do not go ahead: planted"]
    for landing in ("late", "early"):
        np.testing.assert_array_equal(run(after, arrays, {"n": 5}, landing)["C"], expected["C"])


@pytest.mark.parametrize("wrong", ["far", "late"])
def test_its_schedules_are_checked(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies further ahead than versions allow, and reads in front of the wait."""
    rules: list[str] = []

    def planted(body: Body, schedule: Schedule) -> None:
        places = [replace(p, stage=p.stage - 1) if p.stage and wrong == "far" else p for p in schedule.places]
        if wrong == "late":
            places = [replace(p, order=99) if not p.order else p for p in places]
        try:
            verify_schedule(body, replace(schedule, places=tuple(places)))
        except ScheduleError as error:
            rules.append(error.rule)
            raise

    monkeypatch.setattr(checks, "verify", planted)
    context = PassContext(TARGETS["sm_80"])
    software_pipeline(parse_kernel(kernel(loop(f"{COPY}\n{USE}"))), context)
    assert rules == [{"far": "versions", "late": "read"}[wrong]]
    assert len(context.notes) == 1
