"""`mem2reg` against fragments as memory."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.ir.core import Kernel
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control
from minitile.ir.parser import parse_kernel
from minitile.transforms.manager import PassContext, run_passes
from minitile.transforms.tile.mem2reg import mem2reg
from tests.transforms.agree import TO_TILES, agree, count, run

RANDOM = np.random.default_rng(1)
A = RANDOM.integers(-4, 5, size=(16, 8)).astype(np.float32)
V = RANDOM.normal(size=(16,)).astype(np.float32)


def kernel(body: str) -> str:
    return f"""
    traced kernel @k(%A: tensor<16x8xf32>, %V: tensor<16xf32>, %C: tensor<16x8xf32>, %D: tensor<8x16xf16>, %n: i32) {{
      launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        %F = alloc {{type_ = fragment<16x8xf32>}}
        %T = alloc {{type_ = fragment<8x16xf32>}}
        %H = alloc {{type_ = fragment<16x8xf16>}}
        %R = alloc {{type_ = fragment<16xf32>}}
        %S = alloc {{type_ = shared<16x8xf32>}}
        %S2 = alloc {{type_ = shared<16x8xf32>}}
        %L = alloc {{type_ = local<4xf32>}}
        {body}
      }}
    }}"""


def check(body: str, n: int = 3) -> Kernel:
    c, d = np.zeros((16, 8), np.float32), np.zeros((8, 16), np.float16)
    after = agree(kernel(body), TO_TILES, {"A": A, "V": V, "C": c, "D": d}, n=n)
    assert after.stage == "tile"
    assert "fragment" not in str(after)
    return after


WHOLE = "{shape = (16, 8), src_dims = (0, 1), dst_dims = (0, 1)}"
FILL = "fill %F[0, 0], 0.0 {shape = (16, 8), dims = (0, 1)}"
IN = f"copy %A[0, 0], %F[0, 0] {WHOLE}"
OUT = f"copy %F[0, 0], %C[0, 0] {WHOLE}"
ADD_A = """parallel {extents = (16, 8)} (%i: i32, %j: i32) {
             %f = load %F[%i, %j] {shape = (), dims = (none, none)}
             %a = load %A[%i, %j] {shape = (), dims = (none, none)}
             %y = add %f, %a
             store %F[%i, %j], %y {dims = (none, none)}
           }"""


def test_loop_carries_the_fragment() -> None:
    after = check(f"{FILL}\nfor 0, %n, 1 (%k: i32) {{\n{ADD_A}\nyield\n}}\n{OUT}")
    (loop,) = [op for op in after.walk() if isinstance(op, control.For)]
    assert len(loop.init) == 1
    check(f"{FILL}\nfor 0, %n, 1 (%k: i32) {{\n{ADD_A}\nyield\n}}\n{OUT}", n=0)


def test_what_each_round_writes_anew_is_not_carried() -> None:
    after = check(f"for 0, %n, 1 (%k: i32) {{\n{IN}\n{ADD_A}\n{OUT}\nyield\n}}")
    (loop,) = [op for op in after.walk() if isinstance(op, control.For)]
    assert not loop.init


def test_written_in_one_branch() -> None:
    check(f'{IN}\n%p = cmp %n, 2 {{predicate = "gt"}}\nif %p then {{\n{ADD_A}\n}} orelse {{\n}}\n{OUT}')
    check(f'{IN}\n%p = cmp %n, 9 {{predicate = "gt"}}\nif %p then {{\n{ADD_A}\n}} orelse {{\n{FILL}\n}}\n{OUT}')

    check(f'{IN}\n%p = cmp %n, 9 {{predicate = "gt"}}\nif %p then {{\n}} orelse {{\n{ADD_A}\n}}\n{OUT}')


def test_branch_writes_what_the_next_round_reads() -> None:
    check(
        f"""{FILL}
        for 0, %n, 1 (%k: i32) {{
          %row = mul %k, 4
          copy %F[0, 0], %C[%row, 0] {WHOLE}
          %p = cmp %k, 1 {{predicate = "eq"}}
          if %p then {{
            {IN}
          }} orelse {{
          }}
          yield
        }}"""
    )


def test_branch_before_a_loop_without_rounds() -> None:
    check(
        f"""%p = cmp %n, 0 {{predicate = "eq"}}
        if %p then {{
          {IN}
        }} orelse {{
          {FILL}
        }}
        for 0, %n, 1 (%k: i32) {{
          {FILL.replace("0.0", "3.0")}
          yield
        }}
        {OUT}""",
        n=0,
    )


def test_cleared_in_the_first_round() -> None:
    """Written on some path before it is read: no error, zeros elsewhere."""
    first = f'%p = cmp %k, 0 {{predicate = "eq"}}\nif %p then {{\n{FILL}\n}} orelse {{\n}}'
    check(f"for 0, %n, 1 (%k: i32) {{\n{first}\n{ADD_A}\nyield\n}}\n{OUT}")


def test_first_round_in_one_branch_later_rounds_in_the_other() -> None:
    first = '%p = cmp %k, 0 {predicate = "eq"}'
    check(f"for 0, %n, 1 (%k: i32) {{\n{first}\nif %p then {{\n{IN}\n}} orelse {{\n{ADD_A}\n}}\nyield\n}}\n{OUT}")


def test_while() -> None:
    check(
        f"""{FILL}
        %w = while [0] : i32 before (%c: i32) {{
          %p = cmp %c, %n {{predicate = "lt"}}
          condition %p, [%c]
        }} body (%c: i32) {{
          {ADD_A}
          %d = add %c, 1
          yield %d
        }}
        {OUT}"""
    )


def test_nested_loops_and_temporaries() -> None:
    check(
        f"""{FILL}
        for 0, %n, 1 (%k: i32) {{
          fill %R[0], 1.0 {{shape = (16,), dims = (0,)}}
          for 0, 2, 1 (%l: i32) {{
            {ADD_A}
            parallel {{extents = (16,)}} (%i: i32) {{
              %r = load %R[%i] {{shape = (), dims = (none,)}}
              %v = load %V[%i] {{shape = (), dims = (none,)}}
              %y = mul %r, %v
              store %R[%i], %y {{dims = (none,)}}
            }}
            yield
          }}
          parallel {{extents = (16, 8)}} (%i: i32, %j: i32) {{
            %r = load %R[%i] {{shape = (), dims = (none,)}}
            %f = load %F[%i, %j] {{shape = (), dims = (none, none)}}
            %y = mul %f, %r
            store %F[%i, %j], %y {{dims = (none, none)}}
          }}
          yield
        }}
        {OUT}"""
    )


def test_transposed_load_and_store() -> None:
    after = check(
        f"""{IN}
        parallel {{extents = (8, 16)}} (%i: i32, %j: i32) {{
          %f = load %F[%j, %i] {{shape = (), dims = (none, none)}}
          store %T[%i, %j], %f {{dims = (none, none)}}
        }}
        parallel {{extents = (8, 16)}} (%i: i32, %j: i32) {{
          %f = load %T[%i, %j] {{shape = (), dims = (none, none)}}
          %y = add %f, 1.0
          store %F[%j, %i], %y {{dims = (none, none)}}
        }}
        {OUT}
        copy %T[0, 0], %D[0, 0] {{shape = (8, 16), src_dims = (0, 1), dst_dims = (0, 1)}}"""
    )
    assert count(after, "permute") == 2
    assert count(after, "cast") == 1


def test_rank_three_permuted() -> None:
    text = """
    traced kernel @k(%A: tensor<2x3x4xf32>, %B: tensor<2x3x4xf32>) {
      launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
        %F = alloc {type_ = fragment<2x3x4xf32>}
        copy %A[0, 0, 0], %F[0, 0, 0] {shape = (2, 3, 4), src_dims = (0, 1, 2), dst_dims = (0, 1, 2)}
        %G = alloc {type_ = fragment<2x3x4xf32>}
        parallel {extents = (3, 4, 2)} (%i: i32, %j: i32, %k: i32) {
          %f = load %F[%k, %i, %j] {shape = (), dims = (none, none, none)}
          %s = mul %i, 10
          %t = add %s, %j
          %u = cast %t {to = f32}
          %y = add %f, %u
          store %G[%k, %i, %j], %y {dims = (none, none, none)}
        }
        copy %G[0, 0, 0], %B[0, 0, 0] {shape = (2, 3, 4), src_dims = (0, 1, 2), dst_dims = (0, 1, 2)}
      }
    }"""
    a = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
    agree(text, TO_TILES, {"A": a, "B": np.zeros_like(a)})


def test_one_index_of_a_dimension() -> None:
    check(
        f"""{IN}
        %m = sub %n, 1
        parallel {{extents = (16,)}} (%i: i32) {{
          %f = load %F[%i, 3] {{shape = (), dims = (none, none)}}
          %g = load %F[%i, %m] {{shape = (), dims = (none, none)}}
          %y = sub %f, %g
          store %R[%i], %y {{dims = (none,)}}
        }}
        parallel {{extents = (16,)}} (%i: i32) {{
          %r = load %R[%i] {{shape = (), dims = (none,)}}
          store %F[%i, %n], %r {{dims = (none, none)}}
        }}
        {OUT}"""
    )


def test_single_elements() -> None:
    check(
        f"""{IN}
        %x = load %F[2, %n] {{shape = (), dims = (none, none)}}
        %y = mul %x, 10.0
        store %F[%n, 1], %y {{dims = (none, none)}}
        {OUT}"""
    )


def test_parts_of_fragments() -> None:
    after = check(
        f"""{FILL}
        copy %A[3, 2], %F[4, 0] {{shape = (8, 4), src_dims = (0, 1), dst_dims = (0, 1)}}
        copy %A[%n, 0], %F[%n, 5] {{shape = (2, 3), src_dims = (0, 1), dst_dims = (0, 1)}}
        copy %V[0], %F[1, 0] {{shape = (8,), src_dims = (0,), dst_dims = (none, 0)}}
        fill %F[%n, 6], 7.0 {{shape = (4, 2), dims = (0, 1)}}
        copy %F[4, 0], %C[0, 4] {{shape = (8, 4), src_dims = (0, 1), dst_dims = (0, 1)}}
        copy %F[0, 5], %C[8, 0] {{shape = (16, 3), src_dims = (0, 1), dst_dims = (0, 1)}}"""
    )
    assert count(after, "slice") == 2


def test_masked_store_keeps_the_rest() -> None:
    check(
        f"""{IN}
        parallel {{extents = (16, 8)}} (%i: i32, %j: i32) {{
          %p = cmp %i, %j {{predicate = "lt"}}
          if %p then {{
            store %F[%i, %j], -1.0 {{dims = (none, none)}}
          }} orelse {{
          }}
        }}
        {OUT}"""
    )


@pytest.mark.parametrize("clear", ["true", "false"])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax", "abssum"])
def test_reductions(kind: str, clear: str) -> None:
    check(
        f"""{IN}
        copy %V[0], %R[0] {{shape = (16,), src_dims = (0,), dst_dims = (0,)}}
        reduce_into %F, %R {{dim = 1, kind = "{kind}", clear = {clear}}}
        copy %R[0], %C[0, 2] {{shape = (16,), src_dims = (0,), dst_dims = (0, none)}}"""
    )


def test_gemm_from_shared_and_fragment() -> None:
    after = check(
        f"""copy %A[0, 0], %S[0, 0] {WHOLE}
        {IN}
        %Q = alloc {{type_ = fragment<16x16xf32>}}
        %W = alloc {{type_ = fragment<16x8xf32>}}
        gemm_into %F[], %S[0, 0], %Q {{transpose_b = true, clear_accum = true}}
        for 0, %n, 1 (%k: i32) {{
          gemm_into %S[0, 0], %F[], %Q {{transpose_b = true}}
          gemm_into %Q[], %S[0, 0], %W {{clear_accum = true}}
          copy %W[0, 0], %C[0, 0] {WHOLE}
          yield
        }}
        """.replace("%F[]", "%F[0, 0]").replace("%Q[]", "%Q[0, 0]")
    )
    assert count(after, "gemm") == 3


def test_shared_fill_and_casting_copy() -> None:
    check(
        f"""fill %S[0, 0], 1.5 {{shape = (16, 8), dims = (0, 1)}}
        copy %S[0, 0], %D[0, 0] {{shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)}}
        copy %A[0, 0], %H[0, 0] {WHOLE}
        copy %H[0, 0], %F[0, 0] {WHOLE}
        {OUT}"""
    )


def test_local_arrays_at_constant_indices_become_scalars() -> None:
    body = f"""fill %L[0], 0.0 {{shape = (4,), dims = (0,)}}
        for 0, %n, 1 (%k: i32) {{
          for 0, 4, 1 {{kind = "unroll"}} (%u: i32) {{
            %l = load %L[%u] {{shape = (), dims = (none,)}}
            %v = load %V[%u] {{shape = (), dims = (none,)}}
            %y = add %l, %v
            store %L[%u], %y {{dims = (none,)}}
            yield
          }}
          yield
        }}
        %x = load %L[INDEX] {{shape = (), dims = (none,)}}
        fill %F[0, 0], %x {{shape = (16, 8), dims = (0, 1)}}
        {OUT}"""
    assert "local" not in str(check(body.replace("INDEX", "2")))
    assert "local" in str(check(body.replace("INDEX", "%n")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (OUT, "F is read before it is written"),
        (f"for 0, %n, 1 (%k: i32) {{\n{ADD_A}\nyield\n}}\n{OUT}", "F is read before it is written"),
        (
            f"for 0, 4, 1 (%t: i32) {{\nfor 0, %n, 1 (%k: i32) {{\n{ADD_A}\nyield\n}}\n{OUT}\nyield\n}}",
            "F is read before it is written",
        ),
        (f"copy %A[0, 0], %S[0, 0] {WHOLE}\ngemm_into %S[0, 0], %S[0, 0], %F", "F is read before it is written"),
        ("%x = load %L[0] {shape = (), dims = (none,)}\n%y = add %x, %x", "L[0] is read before it is written"),
        (
            f"{IN}\ncopy %F[12, 0], %C[0, 0] {{shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)}}",
            "elements 12 to 19",
        ),
        (
            f"{IN}\ncopy %F[0, 0], %F[8, 0] {{shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)}}",
            "goes into a part of the fragment 'F'",
        ),
        (f"{FILL}\n%o = atomic %F[0, 0], 1.0 {{dims = (none, none)}}", "an atomic operation on the fragment 'F'"),
        ("store %L[4], 1.0 {dims = (none,)}", "index 4 of 'L'"),
    ],
)
def test_errors_name_the_line(body: str, message: str) -> None:
    parsed = parse_kernel(kernel(body), "bad.mt")
    with pytest.raises(LanguageError) as error:
        run_passes(parsed, [(t.__name__, t) for t in TO_TILES], PassContext())
    assert message in error.value.message
    assert error.value.loc is not None


@pytest.mark.parametrize(
    ("index", "places"),
    [
        ("%x = mul %j, 2", [0, 2, 4, 6]),
        ("%y = mul 2, %j\n %x = add %y, 1", [1, 3, 5, 7]),
        ("%p = floordiv %j, 2\n %q = mul %p, 4\n %r = floormod %j, 2\n %x = add %q, %r", [0, 1, 4, 5]),
        ("%p = floordiv %j, 2\n %q = mul %p, 4\n %r = floormod %j, 2\n %s = add %q, %r\n %x = add %s, 2", [2, 3, 6, 7]),
    ],
)
def test_deal(index: str, places: list[int]) -> None:
    """Every second run of a fragment, read in one step."""
    after = check(
        f"""{IN}
        parallel {{extents = (16, 4)}} (%i: i32, %j: i32) {{
          {index}
          %f = load %F[%i, %x] {{shape = (), dims = (none, none)}}
          store %C[%i, %j], %f {{dims = (none, none)}}
        }}"""
    )
    assert count(after, "interleaved_slice") == 1
    c = np.zeros((16, 8), np.float32)
    arrays = {"A": A, "V": V, "C": c, "D": np.zeros((8, 16), np.float16)}
    assert np.array_equal(run(after, arrays, {"n": 0})["C"][:, :4], A[:, places])


@pytest.mark.parametrize(
    ("index", "place"),
    [
        ("%y = floordiv %j, 2\n %x = mul %y, 2", lambda i, j: j // 2 * 2),
        ("%x = sub 3, %j", lambda i, j: 3 - j),
        ("%y = add %i, %j\n %x = floormod %y, 8", lambda i, j: (i + j) % 8),
    ],
)
def test_other_places_are_read_from_a_copy_in_shared_memory(index, place) -> None:
    after = check(
        f"""{IN}
        parallel {{extents = (16, 4)}} (%i: i32, %j: i32) {{
          {index}
          %f = load %F[%i, %x] {{shape = (), dims = (none, none)}}
          store %C[%i, %j], %f {{dims = (none, none)}}
        }}"""
    )
    assert "shared<16x8xf32>" in str(after)
    assert count(after, "interleaved_slice") == 0
    i, j = np.indices((16, 4))
    arrays = {"A": A, "V": V, "C": np.zeros((16, 8), np.float32), "D": np.zeros((8, 16), np.float16)}
    assert np.array_equal(run(after, arrays, {"n": 2})["C"][:, :4], A[i, place(i, j)])


@pytest.mark.parametrize(("index", "first"), [("%x = floordiv %j, 2", 0), ("%y = floordiv %j, 4\n%x = add %y, 3", 3)])
def test_neighbours_are_repeated(index, first) -> None:
    after = check(
        f"""{IN}
        parallel {{extents = (16, 8)}} (%i: i32, %j: i32) {{
          {index}
          %f = load %F[%i, %x] {{shape = (), dims = (none, none)}}
          store %C[%i, %j], %f {{dims = (none, none)}}
        }}"""
    )
    assert count(after, "repeat") == 1
    arrays = {"A": A, "V": V, "C": np.zeros((16, 8), np.float32), "D": np.zeros((8, 16), np.float16)}
    assert np.array_equal(run(after, arrays, {"n": 0})["C"], A[:, np.arange(8) // (4 if first else 2) + first])


def test_a_constant_place_outside_is_an_error() -> None:
    parsed = parse_kernel(
        kernel(
            f"""{IN}
            parallel {{extents = (16, 4)}} (%i: i32, %j: i32) {{
              %x = mul %j, 3
              %f = load %F[%i, %x] {{shape = (), dims = (none, none)}}
              store %C[%i, %j], %f {{dims = (none, none)}}
            }}"""
        )
    )
    for transform in TO_TILES[:-1]:
        transform(parsed, PassContext())
    with pytest.raises(LanguageError, match="element 9 of 'F', which has 8 in dimension 1"):
        mem2reg(parsed, PassContext())
