"""`unroll` against the loop as written."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.transforms.canonicalize.unroll import LIMIT, unroll
from tests.transforms.agree import agree, count

V = np.random.default_rng(3).normal(size=(200,)).astype(np.float32)


def kernel(body: str) -> str:
    return f"""
    tile kernel @k(%V: tensor<200xf32>, %C: tensor<200xf32>, %n: i32) {{
      launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        {body}
      }}
    }}"""


def loop(bounds: str, kind: str = "unroll", name: str = "r", inner: str = "") -> str:
    return f"""%{name} = for {bounds}, [1.5] {{kind = "{kind}"}} : f32 (%k: i32, %c: f32) {{
      %v = load %V[%k] {{shape = (), dims = (none,)}}
      %m = mul %c, %v
      {inner}
      yield %m
    }}
    store %C[0], %{name} {{dims = (none,)}}"""


def loops_left(body: str, n: int = 4) -> int:
    after = agree(kernel(body), (unroll,), {"V": V, "C": np.zeros(200, np.float32)}, n=n)
    return count(after, "for")


@pytest.mark.parametrize("bounds", ["0, 4, 1", "3, 12, 4", "5, 5, 1", "7, 2, 1", f"0, {LIMIT}, 1"])
def test_constant_bounds(bounds: str) -> None:
    assert loops_left(loop(bounds)) == 0


@pytest.mark.parametrize("bounds", ["0, %n, 1", "%n, 9, 1", f"0, {LIMIT + 1}, 1"])
def test_other_loops_stay(bounds: str) -> None:
    assert loops_left(loop(bounds)) == 1


def test_other_kinds_stay() -> None:
    assert loops_left(loop("0, 4, 1", "serial")) == 1


def test_results_feed_a_later_loop_and_its_inside() -> None:
    body = (
        loop("0, 3, 1")
        + """
        for 0, %n, 1 (%i: i32) {
          for 1, 3, 1 {kind = "unroll"} (%j: i32) {
            %at = add %i, %j
            store %C[%at], %r {dims = (none,)}
            yield
          }
          yield
        }"""
    )
    assert loops_left(body) == 1


def test_regions_are_copied() -> None:
    inner = """%p = cmp %k, %n {predicate = "lt"}
      %w = while [%k] : i32 before (%x: i32) {
        %q = cmp %x, 5 {predicate = "lt"}
        condition %q, [%x]
      } body (%x: i32) {
        %y = add %x, 2
        yield %y
      }
      if %p then {
        store %C[%w], %m {dims = (none,)}
      } orelse {
        for 0, 2, 1 (%l: i32) {
          %at = add %l, 9
          store %C[%at], %v {dims = (none,)}
          yield
        }
      }"""
    assert loops_left(loop("0, 4, 1", inner=inner), n=2) == 4
