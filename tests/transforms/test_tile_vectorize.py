"""`tile_vectorize` against the element-by-element meaning of T.Parallel."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.ir.diagnostics import LanguageError
from minitile.ir.parser import parse_kernel
from minitile.transforms.manager import PassContext
from minitile.transforms.tile.tile_vectorize import tile_vectorize
from tests.transforms.agree import TO_TILES, agree, count

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(10, 6)).astype(np.float32)
V = RANDOM.normal(size=(10,)).astype(np.float32)
P = RANDOM.integers(-3, 12, size=(10,)).astype(np.int32)


def kernel(body: str, extents: str = "(8, 4)", before: str = "", after: str = "") -> str:
    """A kernel with tensors of each kind around a parallel body over %i, %j."""
    rank = len(extents.strip("(,)").split(","))
    indices = ", ".join(f"%{name}: i32" for name in "ijk"[:rank])
    return f"""
    traced kernel @k(%A: tensor<10x6xf32>, %V: tensor<10xf32>, %P: tensor<10xi32>, %C: tensor<10x6xf32>, %n: i32) {{
      launch 2, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        %F = alloc {{type_ = fragment<8x4xf32>}}
        %G = alloc {{type_ = fragment<8xf32>}}
        %S = alloc {{type_ = shared<8x4xf32>}}
        {before}
        parallel {{extents = {extents}}} ({indices}) {{
          {body}
        }}
        {after}
      }}
    }}"""


def check(body: str, extents: str = "(8, 4)", before: str = "", after: str = "", n: int = 5) -> object:
    c = np.zeros((10, 6), np.float32)
    return agree(kernel(body, extents, before, after), TO_TILES, {"A": A, "V": V, "P": P, "C": c}, n=n)


LOAD_A = "%a = load %A[%i, %j] {shape = (), dims = (none, none)}"
STORE_C = "store %C[%i, %j], {} {{dims = (none, none)}}"


def test_elementwise_at_an_offset() -> None:
    after = check(
        """%r = add %bx, %i
           %a = load %A[%r, %j] {shape = (), dims = (none, none)}
           %b = add %a, %a
           store %C[%i, %j], %b {dims = (none, none)}"""
    )
    text = str(after)
    assert "dims = (0, 1)" in text
    assert "iota" not in text


def test_lower_rank_is_computed_once_per_row() -> None:
    after = check(
        LOAD_A
        + """
           %v = load %V[%i] {shape = (), dims = (none,)}
           %e = exp %v
           %y = mul %a, %e
           """
        + STORE_C.format("%y")
    )
    assert "exp %v : tile<8xf32>" in str(after)


def test_transposed_and_broadcast() -> None:
    check(
        """%a = load %A[%j, %i] {shape = (), dims = (none, none)}
           %v = load %V[%j] {shape = (), dims = (none,)}
           %y = mul %a, %v
           store %C[%i, %j], %y {dims = (none, none)}""",
        "(6, 4)",
    )


def test_diagonal_gather_scatter() -> None:
    check(
        """%d = load %A[%i, %i] {shape = (), dims = (none, none)}
           %p = load %P[%i] {shape = (), dims = (none,)}
           %g = load %V[%p] {shape = (), dims = (none,)}
           %y = add %d, %g
           %q = sub 5, %i
           store %C[%q, %i], %y {dims = (none, none)}""",
        "(6,)",
    )


def test_strided_and_reversed() -> None:
    check(
        """%two = mul %i, 2
           %rev = sub 3, %j
           %a = load %A[%two, %rev] {shape = (), dims = (none, none)}
           store %C[%i, %j], %a {dims = (none, none)}""",
        "(5, 4)",
    )


def test_if_becomes_masks() -> None:
    after = check(
        LOAD_A
        + """
           %p = cmp %i, %j {predicate = "ge"}
           %y = if %p : f32 then {
             %q = cmp %i, %n {predicate = "lt"}
             %z = if %q : f32 then {
               %v = load %V[%j] {shape = (), dims = (none,)}
               store %C[%j, %j], %v {dims = (none, none)}
               %s = add %v, %a
               yield %s
             } orelse {
               %s = mul %a, 2.0
               yield %s
             }
             yield %z
           } orelse {
             yield 0.0
           }
           %two = add %j, 2
           store %C[%i, %two], %y {dims = (none, none)}""",
        "(8, 2)",
    )
    assert count(after, "if") == 0


def test_uniform_if_stays() -> None:
    after = check(
        LOAD_A
        + """
           %p = cmp %n, 3 {predicate = "gt"}
           %y = if %p : f32 then {
             yield %a
           } orelse {
             %v = load %V[%i] {shape = (), dims = (none,)}
             yield %v
           }
           """
        + STORE_C.format("%y"),
        n=2,
    )
    assert count(after, "if") == 1


def test_loop_carries_what_becomes_a_tile() -> None:
    check(
        """%s, %t = for 0, %n, 1, [0.0, 1.0] : f32, f32 (%k: i32, %s: f32, %t: f32) {
             %a = load %A[%i, %k] {shape = (), dims = (none, none)}
             %v = load %V[%k] {shape = (), dims = (none,)}
             %u = mul %s, %v
             %w = add %t, %a
             yield %w, %u
           }
           %y = add %s, %t
           """
        + STORE_C.format("%y")
    )


def test_fragments_in_program_order() -> None:
    check(
        LOAD_A
        + """
           store %F[%i, %j], %a {dims = (none, none)}
           %f = load %F[%i, %j] {shape = (), dims = (none, none)}
           %y = add %f, 1.0
           store %F[%i, %j], %y {dims = (none, none)}
           for 0, 3, 1 (%k: i32) {
             %f1 = load %F[%i, %j] {shape = (), dims = (none, none)}
             %v = load %V[%k] {shape = (), dims = (none,)}
             %g = mul %f1, %v
             store %F[%i, %j], %g {dims = (none, none)}
             yield
           }
           %h = load %F[%i, %j] {shape = (), dims = (none, none)}
           """
        + STORE_C.format("%h")
    )


def test_mask_picks_the_row() -> None:
    check(
        """%p = cmp %j, 2 {predicate = "eq"}
           if %p then {
             %v = load %V[%i] {shape = (), dims = (none,)}
             store %G[%i], %v {dims = (none,)}
             %a = load %A[%i, %j] {shape = (), dims = (none, none)}
             store %C[%i, 0], %a {dims = (none, none)}
           } orelse {
           }""",
        before="fill %G[0], 0.0 {shape = (8,), dims = (0,)}",
        after="copy %G[0], %C[0, 5] {shape = (8,), src_dims = (0,), dst_dims = (0, none)}",
    )


def test_atomic_happens_for_each_element() -> None:
    text = """
    traced kernel @k(%A: tensor<10x6xi32>, %B: tensor<10xi32>) {
      launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
        parallel {extents = (10, 6)} (%i: i32, %j: i32) {
          %a = load %A[%i, %j] {shape = (), dims = (none, none)}
          %o = atomic %B[%i], %a {dims = (none,)}
          %p = cmp %j, 3 {predicate = "lt"}
          if %p then {
            %u = atomic %B[0], 1 {dims = (none,)}
          } orelse {
          }
        }
      }
    }"""
    arrays = {"A": RANDOM.integers(0, 9, (10, 6)).astype(np.int32), "B": np.zeros(10, np.int32)}
    after = agree(text, TO_TILES, arrays)
    assert "tile<10x6xi32>" in str(after)


def test_extents_of_one() -> None:
    check(
        """%v = load %V[%i] {shape = (), dims = (none,)}
           store %G[%i], %v {dims = (none,)}
           %y = add %v, 1.0
           store %C[%j, %i], %y {dims = (none, none)}
           %p = cmp %j, 0 {predicate = "eq"}
           if %p then {
             store %C[%i, 3], %y {dims = (none, none)}
           } orelse {
           }""",
        "(1, 1)",
    )
    check(LOAD_A + "\n" + STORE_C.format("%a"), "(8, 1)")


def test_shared_under_a_guard_is_masked() -> None:
    """Outside of shared memory lies other memory: the guard must protect the load."""
    after = check(
        """%up = add %i, 1
           %p = cmp %up, 8 {predicate = "lt"}
           %x = if %p : f32 then {
             %s = load %S[%up, %j] {shape = (), dims = (none, none)}
             yield %s
           } orelse {
             yield -1.0
           }
           store %C[%i, %j], %x {dims = (none, none)}""",
        before="copy %A[%bx, 0], %S[0, 0] {shape = (8, 4), src_dims = (0, 1), dst_dims = (0, 1)}",
    )
    assert "mask = " in str(after)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (LOAD_A + "\nstore %C[%i, 0], %a {dims = (none, none)}", "'j' write the same place of 'C'"),
        (LOAD_A + "\nstore %G[%i], %a {dims = (none,)}", "'j' write the same place of 'G'"),
        ("for 0, %i, 1 (%k: i32) {\nyield\n}", "the range of this loop depends on the T.Parallel index 'i'"),
        ("sync_threads", "sync_threads can not stand inside T.Parallel"),
        ("%t = thread_index", "thread_index can not stand inside T.Parallel"),
    ],
)
def test_errors_name_the_line(body: str, message: str) -> None:
    parsed = parse_kernel(kernel(body), "bad.mt")
    with pytest.raises(LanguageError) as error:
        tile_vectorize(parsed, PassContext())
    assert message in error.value.message
    assert error.value.loc is not None
