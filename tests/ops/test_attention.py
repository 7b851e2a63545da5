"""mt.ops.attention against float64: forms and options crossed, odd lengths, all targets; its code; wrong use."""

from __future__ import annotations

import itertools
import math
import random as chance
import re
from dataclasses import replace

import numpy as np
import pytest

import minitile as mt
from minitile.ops.attention_op import kernel_of
from minitile.ops.attention_plans import BY_WARPGROUPS, AttentionPlan, candidates, packed, side_by_side
from minitile.target import TARGETS
from tests.ops.attention_cases import check
from tests.ops.memory_bound.frames import ON_GPU, bf16, exact, f16, f32, given, random

EVERY = ("sm_80", "sm_90a", "gfx942", "gfx950")


@pytest.fixture(params=EVERY)
def target(request, monkeypatch):
    if not ON_GPU:
        if request.param.startswith("gfx"):
            pytest.importorskip("llvmlite")
        monkeypatch.setenv("MINITILE_TARGET", request.param)
    return request.param


def on(monkeypatch, target):
    if not ON_GPU:
        monkeypatch.setenv("MINITILE_TARGET", target)


def test_one_call_on_every_target(target):
    """Two sequences, two heads that share one, keys before the queries, arrays with gaps, blocks of all kinds."""
    check(2, 37, 150, 2, 1, 64, causal=True, gaps=True)


def lengths(*numbers, dtype=np.int32):
    return np.array(numbers, dtype)


FORMS = {  # batch, queries, keys, heads, heads of keys, d, e; options
    "one": ((1, 1, 1, 1, 1, 64), {}),
    "no keys": ((1, 5, 0, 2, 2, 64), {}),
    "no keys but sinks": ((1, 5, 0, 2, 2, 64), {"sinks": np.array([1.5, -2], f32)}),
    "more queries than keys": ((2, 9, 3, 3, 1, 64), {"causal": True, "sinks": random(5, 3).astype(bf16)}),
    "wider values": ((1, 70, 90, 2, 2, 64, 96), {"causal": True, "layout": "bhsd", "gaps": True}),
    "all options": (
        (2, 40, 100, 3, 1, 80),
        {"window": (20, 7), "softcap": 3.0, "scale": 0.3, "sinks": random(6, 3), "q_lengths": lengths(0, 33)}
        | {"k_lengths": lengths(100, 41, dtype=np.int64), "dtype": f16},
    ),
    "padded group": ((1, 3, 70, 5, 1, 64), {"causal": True, "packed": 8}),
}


@pytest.mark.parametrize(("shape", "options"), FORMS.values(), ids=FORMS)
def test_forms(shape, options, monkeypatch):
    on(monkeypatch, "sm_90a")
    check(*shape, **options)


def drawn(seed):
    """A call of the cross product."""
    draw = chance.Random(seed)
    b, kv, group = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2, 3, 8])
    s, n = draw.choice([1, 17, 61, 131]), draw.choice([1, 17, 61, 131, 211])
    d, e = draw.choice([(64, 64), (80, 80), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)])
    options = {"dtype": draw.choice([bf16, f16]), "layout": draw.choice(["bshd", "bhsd"]), "gaps": draw.random() < 0.5}
    options["causal"] = draw.random() < 0.5
    if draw.random() < 0.4:
        options["window"] = draw.choice([(0, 0), (5, -1), (-1, 9), (40, 3), (130, 130)])
    if draw.random() < 0.3:
        options["softcap"] = draw.choice([0.5, 20.0])
    if draw.random() < 0.3:
        options["scale"] = draw.choice([0.02, 1.0])
    if draw.random() < 0.3:
        options["sinks"] = random(seed, kv * group)
    for name, most in (("q_lengths", s), ("k_lengths", n)):
        if draw.random() < 0.3:
            options[name] = lengths(*(draw.randint(0, most) for _ in range(b)))
    return (b, s, n, kv * group, kv, d, e), options


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_options_crossed(seed, target):
    shape, options = drawn(100 * EVERY.index(target) + seed)
    check(*shape, **options)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_long(d, causal, target):
    check(1, 1000, 1000, 1, 1, d, causal=causal)


PLANS = [
    *((row.d, row.e, plan) for row in BY_WARPGROUPS for plan in row.plans),
    (128, 128, AttentionPlan(128, 128, persistent=True)),
    (64, 64, AttentionPlan(64, 64, threads=128, packed=4, persistent=True)),
    (128, 128, AttentionPlan(128, 128, held=True, growth=8.0, persistent=True)),
    (64, 64, AttentionPlan(192, 96, threads=384, held=True, persistent=True)),
    (64, 64, AttentionPlan(192, 128, threads=384, growth=8.0, persistent=True)),
    (64, 64, AttentionPlan(128, 80, together=2, persistent=True)),
    (64, 64, AttentionPlan(64, 128, threads=128, together=3)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("d", "e", "plan"), PLANS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_plans(d, e, plan, causal, monkeypatch):
    on(monkeypatch, "sm_90a")
    check(1, 200, 410, 4, 2, d, e, causal=causal, plan=plan)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_persistent_blocks_take_tile_after_tile(causal, held, monkeypatch):
    """Queries that stay in shared memory have two slots there: the next tile's come while these are in use."""
    on(monkeypatch, "sm_90a")
    monkeypatch.setattr("minitile.ops.attention_op.multiprocessors", lambda x: 2)
    monkeypatch.setattr("minitile.ops.attention_op.side_by_side", lambda *numbers: 1)
    plan = AttentionPlan(64, 64, threads=128, packed=1, held=held, persistent=True)
    check(1, 150, 150, 3, 1, 64, causal=causal, plan=plan)


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_together_on_a_multiprocessor(causal, monkeypatch):
    """Two that take tile after tile, without warps that copy alone."""
    on(monkeypatch, "sm_90a")
    monkeypatch.setattr("minitile.ops.attention_op.multiprocessors", lambda x: 1)
    check(1, 150, 200, 3, 1, 64, causal=causal, plan=AttentionPlan(64, 64, threads=128, together=2, persistent=True))


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_together_have_the_registers_that_they_need(causal):
    """Their products run beside softmax, in a quarter or a third of the registers that a block could have."""
    pytest.importorskip("cuda")
    for plan in AttentionPlan(128, 80, together=2), AttentionPlan(64, 128, threads=128, together=3):
        made = compiled(64, 64, causal, plan)
        text = made.asm["ptx"]
        assert f".minnctapersm {plan.together}" in text
        assert f".reqntid {plan.threads}" in text
        assert "setmaxnreg" not in text
        assert "wgmma.wait_group.sync.aligned 1;" in text
        assert made.binary
        assert made.spills in (0, None)


@pytest.mark.parametrize("growth", [0.0, 8.0])
@pytest.mark.parametrize("causal", [False, True])
def test_stale_maxima(causal, growth, target):
    """Maxima that grow by little and by much, from block to block, of queries that stay in registers. Groups of heads
    whose tiles grow and shrink in turn are spread over persistent blocks, the last turn's being few."""
    plan = AttentionPlan(64, 32, 2, 128, packed=1, held=True, growth=growth, persistent=target == "sm_90a")
    check(1, 150, 250, 3, 3, 64, causal=causal, scale=2.0, plan=plan)
    if causal and growth:  # rows that see nothing; weights of up to 2^8 in 16 bits
        check(1, 70, 40, 2, 2, 64, causal=True, dtype=f16, plan=plan)


def test_out(monkeypatch):
    """It may have gaps; without `return_lse` there is one result."""
    on(monkeypatch, "sm_80")
    q, k, v = (given(random(n, 1, 20, 2, 64, dtype=bf16)) for n in range(3))
    sinks = given(np.array([1, 0], f32))
    both, _ = mt.ops.attention(q, k, v, window=(4, -1), sinks=sinks, return_lse=True)
    room = given(np.zeros((1, 20, 3, 64), bf16))
    out = room[:, :, 1:]
    assert mt.ops.attention(q, k, v, window=(4, -1), sinks=sinks, out=out) is out
    assert (exact(out) == exact(both)).all()
    assert not exact(room[:, :, 0]).any()


@pytest.mark.parametrize("shape", [(0, 3, 2, 64), (2, 0, 2, 64), (2, 3, 0, 64)])
def test_no_elements(shape):
    x = given(np.zeros(shape, bf16))
    o, lse = mt.ops.attention(x, x, x, return_lse=True)
    assert tuple(o.shape) == shape
    assert tuple(lse.shape) == (shape[0], shape[2], shape[1])


# Its code ------------------------------------------------------------------------------------------------------------


def compiled(d, e, causal=True, plan=None, target="sm_90a", all_options=False, rows=4096, sizes=(2, 4, 256)):
    """With all options, which take the most registers, or none. sizes: batch, heads of keys, and length."""
    plan = plan or candidates(d, e, rows, TARGETS[target], not all_options, causal)[0]
    group = 8 if all_options else 1
    q, o = (mt.spec((*sizes, group, n), "bfloat16") for n in (d, e))
    k, v = (mt.spec((*sizes, n), "bfloat16") for n in (d, e))
    more = [None] * 4
    if all_options:
        lengths_ = mt.spec((2,), "int32")
        more = [mt.spec((2, 4, 256, group), "float32"), mt.spec((4, group), "float32"), lengths_, lengths_]
    return kernel_of(plan).compile(
        q, k, v, o, *more, 1.0, 1.0, 0, 0, 1, target=target, D=d, E=e, bounds=(all_options, causal),
        capped=all_options, packed=group, whole=not all_options, **plan.parameters(132),
    )  # fmt: skip


def test_elements_are_tested_under_a_branch_alone():
    """A branch goes past all selects of the loop but those of the rings' states; softmax runs beside the product of
    the block before; copies of all operands and of the result are the copy engine's."""
    text = compiled(128, 128).asm["ptx"]
    lines = text.splitlines()
    labels = {line.strip()[:-1]: n for n, line in enumerate(lines) if line.strip().endswith(":")}
    jumps = [
        (n, labels.get(m[1], n)) for n, line in enumerate(lines) if (m := re.search(r"bra(?:\.uni)? (\S+);", line))
    ]
    loops = [(to, n) for n, to in jumps if to < n and any("wgmma.mma_async" in line for line in lines[to:n])]
    (start, end) = min(loops, key=lambda loop: loop[1] - loop[0])
    tested = [n for n in range(start, end) if re.search(r"selp\.f32", lines[n])]
    past = [(n, to) for n, to in jumps if start < n < to < end]
    assert len(tested) >= 64
    assert any(all(n < t < to for t in tested) for n, to in past)
    scores, out = (
        next(n for n in range(start, end) if f"wgmma.wait_group.sync.aligned {m};" in lines[n]) for m in (1, 0)
    )
    assert sum("ex2.approx" in line for line in lines[scores:out]) >= 64
    assert len(set(re.findall(r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[^\n]*\[%(\w)_map", text))) == 3
    assert "cp.async.bulk.tensor.5d.global.shared::cta" in text


def test_a_wait_stands_behind_all_exponentials(monkeypatch):
    """In both arms of the branch around what rescales the sums; the verifier knows both for a wait before the slot's
    release."""
    monkeypatch.setenv("MINITILE_VERIFY", "1")
    lines = compiled(128, 128, False, AttentionPlan(128, 128)).asm["ptx"].splitlines()
    vote = next(n for n, line in enumerate(lines) if "vote.sync.any" in line)
    start = max(n for n, line in enumerate(lines[:vote]) if "wgmma.wait_group.sync.aligned 1;" in line)
    arms = [n for n in range(vote, len(lines)) if "wgmma.wait_group.sync.aligned 0;" in lines[n]][:2]
    branch = next(n for n in range(vote, arms[0]) if re.search(r"@!?%\w+ bra", lines[n]))
    assert sum("ex2.approx" in line for line in lines[start:branch]) >= 64
    assert not any("ex2.approx" in line for line in lines[branch : arms[1]])
    assert sum("mul" in line for line in lines[arms[0] : arms[1]]) >= 64


@pytest.mark.parametrize("plan", [AttentionPlan(192, 128, threads=384), AttentionPlan(256, 64, threads=512)], ids=str)
def test_softmax_beside_products_with_few_registers(plan):
    """Three warpgroups and four, of heads of 64: the products of one block of keys run beside the next one's
    softmax."""
    lines = compiled(64, 64, False, replace(plan, persistent=True)).asm["ptx"].splitlines()
    start = max(n for n, line in enumerate(lines) if "wgmma.wait_group.sync.aligned 1;" in line)
    end = next(n for n in range(start, len(lines)) if "wgmma.wait_group.sync.aligned 0;" in lines[n])
    weights = plan.block_M * plan.block_N // plan.threads
    assert sum("ex2.approx" in line for line in lines[start:end]) == weights + 2


@pytest.mark.parametrize("d", [64, 128])
def test_tiles_of_persistent_blocks_do_not_meet(d):
    """Warpgroups multiply one after the other, and no barrier of the loop is for all of them: what one tile stores
    no other one writes. Results go by TMA, places of tiles take no division of 64 bits."""
    text = compiled(d, d, plan=AttentionPlan(128, 128, held=True, persistent=True)).asm["ptx"]
    assert "cp.async.bulk.tensor.5d.global.shared" in text
    barriers = re.findall(r"bar\.sync [^;]*;[^\n]*", text[text.index("setmaxnreg.inc") :])
    assert len(barriers) >= 3
    assert all("%group, 128" in line or "order barrier" in line for line in barriers)
    assert not re.search(r"(div|rem)\.s64", text)


@pytest.mark.parametrize(
    ("d", "plan", "slots"),
    [
        (64, AttentionPlan(192, 128, threads=384, persistent=True), 2),
        (64, AttentionPlan(128, 128, held=True, persistent=True), 1),  # free once the queries are in registers
        (256, AttentionPlan(128, 64, persistent=True), 1),  # shared memory has no room for 64 KB more
    ],
    ids=str,
)
def test_slots_of_queries(d, plan, slots):
    """Keys and values have two slots; a slot has a barrier for what arrives and one for what is free."""
    text = compiled(d, d, False, plan).asm["ptx"]
    assert len(re.findall(r"mbarrier\.init", text)) == 2 * (2 + 2 + slots)


WAYS = ((0, 0), (1, 0), (1, 1))  # causal; all options
ROWS = (1000, 4096, 1 << 14)
SIZES = ((2, 4, 256), (1, 1, 257))  # of which other code comes: what divides them, and what is 1
CHOSEN = {  # a case for each plan that is chosen; the one of most rows
    (row.d, row.e, causal, more, sizes, row.ordered(rows, bool(causal), not more)[0]): (
        row.d, row.e, causal, more, rows, sizes,
    )
    for row in BY_WARPGROUPS
    for causal, more in WAYS
    for sizes in SIZES[: 2 - more]
    for rows in ROWS
}.values()  # fmt: skip
QUICK = ((128, 128, 1, 1, 1 << 14, SIZES[0]), (256, 256, 0, 0, 1 << 14, SIZES[1]), (64, 64, 1, 0, 4096, SIZES[0]))


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CHOSEN], ids=str
)
def test_no_spills(case):
    """Of the plans that are chosen for sm_90a: the assembler refuses code that spills, or whose products wait for each
    other (C75xx)."""
    pytest.importorskip("cuda")
    d, e, causal, all_options, rows, sizes = case
    made = compiled(d, e, bool(causal), all_options=bool(all_options), rows=rows, sizes=sizes)
    assert made.binary
    assert made.spills in (0, None)
    assert not made.executable.remarks


def test_choices_by_length_and_mask():
    """Up to half way, as logarithms go, to the next length that was measured."""

    def chosen(d, rows, causal):
        return candidates(d, d, rows, TARGETS["sm_90a"], True, causal)[0]

    for d, causal, below, above in (64, True, 5792, 5793), (64, False, 5792, 5793), (96, True, 8192, 8193):
        assert chosen(d, 1000, causal) == chosen(d, below, causal) != chosen(d, above, causal)
        assert chosen(d, above, causal) == chosen(d, 1 << 17, causal)
    assert chosen(64, 1000, True).together == 2
    assert all(chosen(128, rows, causal).growth == 0 for rows in ROWS for causal in (False, True))


FORWARD = [  # each chosen plan with its mask
    (row.d, row.e, plan, causal)
    for row in BY_WARPGROUPS
    for causal in (False, True)
    for plan in dict.fromkeys(row.ordered(rows, causal, True)[0] for rows in ROWS)
]


@pytest.mark.parametrize(
    ("d", "e", "plan", "causal"),
    [case if case[2].together > 1 else pytest.param(*case, marks=pytest.mark.slow) for case in FORWARD],
    ids=str,
)
def test_chosen_plans_in_every_schedule(d, e, plan, causal, monkeypatch):
    """Lengths that no tile divides; copies that land as early as they may, as late, and at random."""
    on(monkeypatch, "sm_90a")
    monkeypatch.setattr("minitile.ops.attention_op.multiprocessors", lambda x: 1)
    schedules = itertools.cycle(("eager", "lazy", "random"))

    def forward(*args, **constants):
        made = kernel_of(plan).compile(*args, target="sm_90a", **constants)
        made.simulate(*args, schedule=next(schedules), seed=5)

    if not ON_GPU:
        monkeypatch.setattr("minitile.ops.attention_op.kernel_of", lambda plan: forward)
    for keys in 0, 1, 17, plan.block_N + 1, 3 * plan.block_N:
        check(1, plan.block_M + 1, keys, 1, 1, d, e, causal=causal, plan=plan, layout="bhsd")


@pytest.mark.parametrize("name", EVERY)
def test_there_is_a_plan(name):
    sizes = range(16, 257, 16)
    for d, e, rows, plain, causal in itertools.product(sizes, sizes, (1, 64, 65, 2000), (False, True), (False, True)):
        plans = candidates(d, e, rows, TARGETS[name], plain, causal)
        assert plans
        assert all(plan.shared(d, e) < TARGETS[name].max_shared for plan in plans)


def test_packed_heads():
    assert [packed(group, 1, 64) for group in (1, 2, 3, 5, 8, 64, 128)] == [1, 2, 4, 8, 8, 64, 64]
    assert packed(8, 4096, 128) == 1  # no fewer tiles by any
    assert packed(8, 1000, 128) == 1  # 63 tiles in place of 64
    assert packed(8, 8, 64) == 8
    assert packed(6, 16, 192) == 8
    assert packed(3, 40, 128) == 2


def test_heads_whose_keys_the_caches_hold():
    assert side_by_side(64, 1024, 128, 128) == 32
    assert side_by_side(7, 1 << 20, 128, 128) == 1
    assert side_by_side(12, 0, 64, 64) == 12


def test_persistent_blocks_share_heads_or_come_out_even():
    assert side_by_side(64, 4096, 128, 128, tiles=32, blocks=132) == 16
    assert side_by_side(64, 4096, 128, 128, tiles=32, blocks=132, grow=False) == 1


def test_all_roles_of_persistent_blocks_wait_for_the_grid_in_front():
    text = compiled(128, 128, plan=AttentionPlan(128, 128, persistent=True)).asm["ptx"]
    assert text.count("griddepcontrol.wait") == 1
    assert text.index("griddepcontrol.wait") < min(text.index("setmaxnreg"), text.index("cp.async.bulk.tensor"))


# Wrong use -----------------------------------------------------------------------------------------------------------


def operands(**changed):
    shapes = {"q": (1, 4, 4, 64), "k": (1, 4, 2, 64), "v": (1, 4, 2, 64)} | changed
    return {name: given(np.zeros(shape, bf16)) for name, shape in shapes.items()}


WRONG = {
    "v has 3 dimensions": (operands(v=(4, 2, 64)), {}),
    "heads of q have 72 elements": (operands(q=(1, 4, 4, 72)), {}),
    "heads of v have 272 elements": (operands(v=(1, 4, 2, 272)), {}),
    "k has shape .* and v": (operands(v=(1, 5, 2, 64)), {}),
    "q has shape .* and k": (operands(q=(2, 4, 4, 64)), {}),
    "q has 3 heads and k has 2": (operands(q=(1, 4, 3, 64)), {}),
    "k is f32": (operands() | {"k": given(np.zeros((1, 4, 2, 64), f32))}, {}),
    "layout is 'hsd'": (operands(), {"layout": "hsd"}),
    "window is ": (operands(), {"window": (1, 2, 3)}),
    r"window is \(-2, 0\)": (operands(), {"window": (-2, 0)}),
    "window is 5": (operands(), {"window": 5}),
    "scale is -1": (operands(), {"scale": -1}),
    "softcap is 0": (operands(), {"softcap": 0}),
    "sinks has shape": (operands(), {"sinks": given(np.zeros(2, f32))}),
    "k_lengths is f32": (operands(), {"k_lengths": given(np.zeros(1, f32))}),
    "q_lengths has shape": (operands(), {"q_lengths": given(np.zeros(2, np.int32))}),
    "out has shape": (operands(), {"out": given(np.zeros((1, 4, 2, 64), bf16))}),
    "out is f16": (operands(), {"out": given(np.zeros((1, 4, 4, 64), f16))}),
    "plan is 8": (operands(), {"plan": 8}),
    "the plan's growth is 16": (operands(), {"plan": AttentionPlan(64, 64, growth=16)}),
    "the plan's growth is nan": (operands(), {"plan": AttentionPlan(64, 64, growth=float("nan"))}),
    "the plan's growth is -1": (operands(), {"plan": AttentionPlan(64, 64, growth=-1.0)}),
    "the plan's block_M is 64.0": (operands(), {"plan": AttentionPlan(64.0, 64)}),  # type: ignore[arg-type]
    "the plan's threads is 0": (operands(), {"plan": AttentionPlan(64, 64, threads=0)}),
    "threads=100: a block has": (operands(), {"plan": AttentionPlan(64, 64, threads=100)}),
    "bytes of shared memory": (operands(), {"plan": AttentionPlan(64, 512, 4)}),
    "the plan packs 3 heads in 64 rows": (operands(), {"plan": AttentionPlan(64, 64, threads=128, packed=3)}),
}


@pytest.mark.parametrize(("message", "case"), WRONG.items(), ids=WRONG)
def test_wrong_use(message, case):
    arrays, options = case
    with pytest.raises(mt.MinitileError, match=message) as found:
        mt.ops.attention(**arrays, **options)
    assert found.value.loc is not None
    assert (found.value.loc.file, found.value.loc.caller) == (__file__, None)


def test_queries_that_do_not_count_are_not_looked_at(target):
    """Padding may hold anything: its results are zeros."""
    q, k, v = (random(n, 2, 20, 2, 32, dtype=bf16) for n in range(3))
    q[1, 7:] = math.nan
    o, lse = mt.ops.attention(given(q), given(k), given(v), q_lengths=given(lengths(20, 7)), return_lse=True)
    assert (exact(o)[1, 7:] == 0).all()
    assert np.isneginf(exact(lse)[1, :, 7:]).all()
    assert np.isfinite(exact(o)).all()


def test_not_finite():
    """A NaN is not hidden; it stays in its row."""
    q, k, v = (random(n, 1, 20, 1, 64, dtype=bf16) for n in range(3))
    q[0, 3, 0, 5] = math.nan
    o = exact(mt.ops.attention(given(q), given(k), given(v)))
    assert np.isnan(o[0, 3]).all()
    assert np.isfinite(np.delete(o, 3, axis=1)).all()


@pytest.mark.parametrize(
    ("plan", "kept"), [(AttentionPlan(256, 64, threads=512, held=True), 8), (AttentionPlan(128, 128, held=True), 0)]
)
def test_held_queries_stay_in_their_registers(plan, kept):
    """Where weights are made and used up in one turn, ptxas 13.0 gives them the registers of the queries, which the
    next turn reads: results were wrong on an H200, and right in the simulator."""
    text = compiled(64, 64, False, plan).asm["ptx"]
    uses = re.findall(r"@%p\d+ prefetch\.global", text)
    assert len(uses) == kept
    if kept:
        assert text.index(uses[0]) > text.rindex("wgmma.mma_async")
