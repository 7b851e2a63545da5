"""What the assembly of row kernels must look like to move bytes at the speed of memory."""

from __future__ import annotations

import re

import minitile as mt
from minitile.language import bfloat16
from minitile.ops.memory_bound.norms import norm_rows
from minitile.ops.memory_bound.norms_backward import backward_rows, gradient_plan
from minitile.ops.memory_bound.rows import H200, row_plan
from minitile.ops.memory_bound.softmax import softmax_rows

M = 4096


def ptx(kernel, args, n, plan):
    return kernel.compile(*args, target="sm_90a", **plan.constants(n)).asm["ptx"]


def matrix(n, dtype="bfloat16"):
    return mt.spec((M, n), dtype)


def count(text, pattern):
    return len(re.findall(pattern, text))


def test_short_rows_stay_in_a_warp():
    for n in (512, 1024):
        x = matrix(n)
        text = ptx(softmax_rows, (x, x), n, row_plan(n, bfloat16))
        assert count(text, r"ld\.global\.v4") == count(text, r"st\.global\.v4") == 4
        assert count(text, "shared|bar.sync|selp") == 0


def test_two_reductions_take_two_barriers():
    """Partial results of 16 warps are loaded by fours; the second reduction has bytes of its own."""
    x = matrix(16384)
    text = ptx(softmax_rows, (x, x), 16384, row_plan(16384, bfloat16))
    assert count(text, r"bar\.sync") == 2
    assert count(text, r"ld\.shared\.v4\.f32") == 8
    assert count(text, r"ld\.shared\.f32") == 0


def test_hoisted_loads_leave_room_for_a_second_block():
    """Of 4096 columns the weight's loads stand in front of the reduction; with 512 threads they would take registers
    that a second block needs, and stand behind it."""
    for n, first in ((4096, True), (16384, False)):
        x, w = matrix(n), mt.spec((n,), "bfloat16")
        text = ptx(norm_rows(False, True, False, False), (x, x, w, x, x, x, 1e-6), n, row_plan(n, bfloat16))
        assert count(text, r"ld\.global\.v4") == 8
        assert (count(text[: text.index("bar.sync")], r"ld\.global\.v4") == 8) == first


def test_vectors_suit_the_loop():
    """Rows go by 16 bytes, though the sums behind the loop, of f32, are stored by 16, too."""
    n = 4096
    plan = gradient_plan(n, bfloat16, False)
    x, w, parts = matrix(n), mt.spec((n,), "bfloat16"), mt.spec((plan.clusters, n), "float32")
    constants = {name: value for name, value in plan._asdict().items() if name != "clusters"}
    kernel = backward_rows(False, True, False, False)
    text = kernel.compile(x, x, w, x, x, parts, x, 1e-6, target="sm_90a", **constants).asm["ptx"]
    assert count(text, r"st\.global\.v4\.b32") == 2
    assert count(text, r"\.v2\.b32") == 0


def test_rows_that_begin_anywhere_are_wide():
    """As many wide accesses as of even rows, and one vector by elements for each tensor; nothing is spilled."""
    for n in (1001, 2047, 8191):
        x = matrix(n)
        kernel = softmax_rows.compile(x, x, target="sm_90a", **row_plan(n, bfloat16).constants(n))
        text = kernel.asm["ptx"]
        assert count(text, r"ld\.global\.v4") == count(text, r"st\.global\.v4") == 4
        assert count(text, r"ld\.global\.b16") == count(text, r"st\.global\.b16") == 8
        assert len(text.splitlines()) < 800
        assert kernel.spills == 0


def test_factors_are_put_together_of_wide_loads():
    """Of rows that begin anywhere, with a weight and a bias: two wide loads for each vector, single elements in the
    loops of the tensors' cut vectors alone, which nothing else waits for; masks behind a branch."""
    n = 8191
    x, w = matrix(n), mt.spec((n,), "bfloat16")
    constants = row_plan(n, bfloat16, factors=2, room=H200._replace(shared=0)).constants(n)
    kernel = norm_rows(True, True, True, False).compile(x, x, w, w, x, x, 1e-6, target="sm_90a", **constants)
    text = kernel.asm["ptx"]
    assert count(text, r"ld\.global\.v4") == 4 + 8 + 8
    assert count(text, r"ld\.global\.b16") == count(text, r"st\.global\.b16") * 3 == 24
    loops = "".join(re.findall(r"\$L_while\d+:.*?\$L_while_test", text, re.S))
    assert count(loops, r"global\.b16") == count(text, r"global\.b16")
    assert count(text, r"bar\.sync") == 2
    assert len(text.splitlines()) < 1400
    branch = re.search(r"bra (\$L\w+);\n(?:  (?!bra|@).*\n)*?  selp\.f32 .*\n(?:  (?!bra|@).*\n)*", text)
    assert branch is not None
    assert count(branch.group(), r"selp\.f32") == 32
    assert kernel.spills == 0


def test_cut_stores_need_no_barrier():
    """A thread stores what it holds, at once or by elements."""
    for n, barriers in ((1001, 0), (8191, 2)):
        x = matrix(n)
        assert count(ptx(softmax_rows, (x, x), n, row_plan(n, bfloat16)), r"bar\.sync") == barriers
