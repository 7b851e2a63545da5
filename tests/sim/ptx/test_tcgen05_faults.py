"""Programs for tcgen05 with one fault each, found by name, and sound ones that are near to them, about which the
simulator is silent. All of them assemble."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim.mutate.ptx import removals
from tests.sim.ptx.blackwell import (
    PLACE_B,
    arguments,
    assembles,
    changed,
    inserted,
    lay_out,
    parts,
    product_word,
    simulate,
    text_of,
    wait,
)
from tests.sim.ptx.hopper import fill

N = 32
WORD = product_word("bf16", "bf16", 128, N)
Program = dict[str, str]
SCHEDULES = ("lazy", "eager", "random")

_rng = np.random.default_rng(7)
A = _rng.standard_normal((128, 64)).astype(ml_dtypes.bfloat16)
B = _rng.standard_normal((N, 64)).astype(ml_dtypes.bfloat16)
ONCE = A[:, :16].astype(np.float64) @ B[:, :16].astype(np.float64).T
LEFT, RIGHT = lay_out(A, 128, False), lay_out(B, 128, False)


def shared(**more: int) -> Program:
    """A from shared memory."""
    return parts(LEFT, RIGHT, more.pop("word", WORD), "f16", N, **more)


def tensor() -> Program:
    """A from tensor memory."""
    return parts(None, RIGHT, WORD, "f16", N)


def without(*names: str, program: Callable[..., Program] = shared) -> Callable[[], Program]:
    """The program without some parts."""
    return lambda: {name: text for name, text in program().items() if name not in names}


def moved(name: str, behind: str) -> Callable[[], Program]:
    """The program with one part behind another one."""

    def make() -> Program:
        program = shared()
        text = program.pop(name)
        return inserted(program, behind, text, before=False)

    return make


MMA = "    tcgen05.mma.cta_group::1.kind::f16 [{d}], y2, y3, {word}, q;"
COMMIT = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"
AGAIN = "    setp.ne.u32 q, 0, 0;\n    @lead " + MMA.format(d="tm", word="word").strip()
OVERWRITE = "    @lead st.shared.b32 [s], x0;"
DEALLOC = "    setp.ne.u32 q, warp, 0;\n    @q bra G_done;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64;"

FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    "a read without a commit": ("missing_wait", without("commit", "wait")),
    "a read before the wait": ("missing_wait", without("wait")),
    "a commit in front of the product": ("missing_wait", lambda: inserted(without("commit")(), "mma 0", COMMIT)),
    "a commit by another thread": (
        "missing_wait",
        lambda: inserted(
            without("commit")(), "issued", f"    setp.eq.u32 q, tid, 32;\n    @q {COMMIT.strip()}", before=False
        ),
    ),
    "no fence behind the wait": ("missing_fence", without("after")),
    "registers of a load too early": ("missing_wait", without("ld wait")),
    "freed without a fence before": ("missing_fence", without("before")),
    "freed while others read": ("missing_barrier", without("last meet")),
    "freed while a load is in flight": ("missing_wait", without("ld wait", "store")),
    "never freed": ("tensor_memory_leak", without("dealloc")),
    "freed by some lanes of a warp": (
        "divergent_barrier",
        lambda: changed(shared(), "dealloc", shared()["dealloc"].replace("q, warp, 0", "q, warp, lane")),
    ),
    "freed twice": ("use_after_free", lambda: inserted(shared(), "dealloc", DEALLOC + "\nG_done:")),
    "freed in part": (
        "tensor_memory_alloc",
        lambda: changed(shared(), "dealloc", shared()["dealloc"].replace("tm, 64", "tm, 32")),
    ),
    "read when it is free": ("use_after_free", moved("dealloc", "after")),
    "48 columns": (
        "tensor_memory_alloc",
        lambda: changed(
            shared(),
            "alloc",
            shared()["alloc"].replace("[slot], 64", "[slot], x9").replace("    tc", "    mov.u32 x9, 48;\n    tc"),
        ),
    ),
    "allocated behind the permit": (
        "tensor_memory_alloc",
        lambda: inserted(shared(), "relinquish", shared()["alloc"].splitlines()[-1], before=False),
    ),
    "allocations that grow": (
        "tensor_memory_alloc",
        lambda: inserted(shared(), "alloc", shared(columns=128)["alloc"].splitlines()[-1], before=False),
    ),
    "more than there is": (
        "deadlock",
        lambda: inserted(shared(columns=512), "alloc", shared()["alloc"].splitlines()[-1], before=False),
    ),
    "more than is allocated": (
        "out_of_bounds",
        lambda: shared(columns=64, word=product_word("bf16", "bf16", 128, 128)),
    ),
    "lanes of another warp": (
        "lane_access",
        lambda: changed(shared(), "ld", shared()["ld"].replace("[mine]", "[tm]")),
    ),
    "an accumulator at lane 16": (
        "lane_access",
        lambda: inserted(shared(), "start", "    add.u32 tm, tm, 0x100000;", before=False),
    ),
    "adds to nothing": ("uninitialised", lambda: shared(accumulate=1)),
    "reads what no product wrote": (
        "uninitialised",
        lambda: changed(shared(), "ld", shared()["ld"].replace("[mine]", "[mine+32]")),
    ),
    "formats of another kind": ("bad_descriptor", lambda: shared(word=WORD | 2 << 7 | 2 << 10)),
    "N = 20": ("bad_descriptor", lambda: shared(word=WORD & ~(63 << 17) | 2 << 17 | 1 << 23)),
    "M = 256 of one CTA": ("bad_descriptor", lambda: shared(word=WORD & ~(31 << 24) | 16 << 24)),
    "a matrix descriptor of sm_90a": (
        "bad_descriptor",
        lambda: inserted(shared(), "descriptors", f"    sub.u64 y2, y2, {1 << 46};", before=False),
    ),
    "a swizzle that is none": (
        "bad_descriptor",
        lambda: inserted(shared(), "descriptors", f"    add.u64 y3, y3, {1 << 61};", before=False),
    ),
    "operands without a proxy fence": ("missing_proxy_fence", without("proxy fence")),
    "operands without a barrier": ("missing_barrier", without("meet")),
    "a barrier that the commit need not see": (
        "missing_proxy_fence",
        lambda: inserted(without("init fence", "init")(), "proxy fence", shared()["init"], before=False),
    ),
    "operands overwritten too early": ("missing_wait", lambda: inserted(shared(), "wait", OVERWRITE)),
    "an accumulator of another shape": (
        "missing_wait",
        lambda: inserted(
            shared(), "mma 0", f"    add.u32 x9, word, {1 << 17};\n{MMA.format(d='tm', word='x9')}", before=False
        ),
    ),
    "an accumulator that overlaps": (
        "missing_wait",
        lambda: inserted(shared(), "mma 0", MMA.format(d="tm+16", word="word"), before=False),
    ),
    "a product over what is being read": (
        "missing_wait",
        lambda: (
            inserted(without("commit")(), "ld wait", f"{AGAIN}\n    @lead {COMMIT.strip()}")
            | {"mma 0": shared()["mma 0"] + "\n" + COMMIT}
        ),
    ),
    "a product that no fence orders behind the reads": (
        "missing_fence",
        lambda: inserted(shared(), "before", f"    bar.sync 0;\n{AGAIN}\n    @lead {COMMIT.strip()}"),
    ),
    "the kernel ends before the product": ("missing_wait", without("wait", "after", "ld", "ld wait", "store")),
    "A stored, not waited for": ("missing_wait", without("a wait", program=tensor)),
    "A stored, no fence before": ("missing_fence", without("a before", program=tensor)),
    "A stored, no fence after": ("missing_fence", without("a after", program=tensor)),
    "A stored, no barrier": ("missing_barrier", without("a meet", program=tensor)),
    "over A of another thread's product": ("missing_wait", lambda: over_the_factor(by="q, tid, 32")),
    "over A of a product, by a store": (
        "missing_wait",
        lambda: inserted(over_the_factor(), "wait", "    tcgen05.st.sync.aligned.32x32b.x1.b32 [x5], {v0};"),
    ),
}


def over_the_factor(by: str = "q, tid, 0") -> Program:
    """A product writes the columns where the one before has its A, with an A of its own at column 32 (as the scores of
    attention do, over weights); which thread issues it."""
    program = parts(None, RIGHT, WORD, "f16", N, columns=128)
    store = program["a st"] + "\n    add.u32 x6, mine, 32;\n" + program["a st"].splitlines()[-1].replace("x5", "x6")
    second = "    add.u32 x7, tm, 32;\n    tcgen05.mma.cta_group::1.kind::f16 [am], [x7], y3, word, p;"
    guard = f"    setp.ne.u32 {by};\n    @q bra S_done;\n    setp.ne.u32 p, 0, 0;\n"
    program = changed(program, "a st", store)
    return inserted(program, "issued", f"{guard}{second}\n{COMMIT}\nS_done:", before=False) | {
        "commit": "",
        "start": "    @!lead bra M_done;",
    }


def found(program: Program, schedule: str, block: int = 128) -> tuple[list[str], np.ndarray]:
    text = text_of(program)
    assembles(text)
    a = A[:, :16] if "a st" in program else LEFT.image
    args = arguments(a, RIGHT.image, N)
    report = simulate(text, args, block, schedule=schedule, seed=11)
    return [each.kind for each in report.findings], args[2]


@pytest.mark.parametrize("schedule", ["lazy", *(pytest.param(each, marks=pytest.mark.slow) for each in SCHEDULES[1:])])
@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, schedule: str) -> None:
    kind, make = FAULTS[name]
    kinds, _ = found(make(), schedule)
    waits = {"missing_barrier", "missing_wait", "missing_fence"}  # who came first may decide which one is missing
    assert kind in kinds or (schedule == "random" and kind in waits and waits & set(kinds)), kinds


# Sound programs -----------------------------------------------------------------------------------------------------


def second_tile() -> Program:
    """The accumulator is used again: loads are waited for, and fences stand around the barrier between."""
    stores = "\n".join(f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(N))
    again = [
        "    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    tcgen05.fence::after_thread_sync;",
        f"{AGAIN}\n    @lead {COMMIT.strip()}",
        wait("two", 1),
        "    tcgen05.fence::after_thread_sync;",
        shared()["ld"],
        "    tcgen05.wait::ld.sync.aligned;",
        stores,
    ]
    return inserted(shared(), "before", "\n".join(again))


def two_accumulators() -> Program:
    """Products of two accumulators need no order."""
    return inserted(shared(), "mma 0", MMA.format(d="tm+32", word="word"), before=False)


def one_warp_waits() -> Program:
    """One warp waits for the product and lets the others know."""
    tell = "\n    tcgen05.fence::before_thread_sync;\n    bar.sync 0;"
    return changed(shared(), "wait", f"    setp.ne.u32 q, warp, 1;\n    @q bra X;\n{wait('product')}\nX:{tell}")


def another_thread_goes_on() -> Program:
    """Two threads' products of one accumulator, in order by fences around a barrier."""
    hand_over = "    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n"
    program = without("commit")()
    other = "    setp.eq.u32 r, tid, 64;\n    setp.ne.u32 q, 0, 0;\n"
    return inserted(
        program,
        "issued",
        f"{hand_over}{other}    @r {MMA.format(d='tm', word='word').strip()}\n    @r {COMMIT.strip()}\n"
        f"    @lead {COMMIT.strip().replace('[bar]', '[bar+8]')}\n{wait('own').replace('[bar]', '[bar+8]')}",
        before=False,
    ) | {
        "init": shared()["init"] + "\n    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;",
    }


def relaxed(*, before: bool = True, after: bool = True) -> Program:
    """The same by an mbarrier, with relaxed operations: tcgen05's fences compose with them."""
    fence = "    tcgen05.fence::{}_thread_sync;\n"
    hand_over = (
        (fence.format("before") if before else "")
        + "    @lead mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bar+16];\n"
        + "R:\n    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [bar+16], 0;\n    @!p bra R;\n"
        + (fence.format("after") if after else "")
    )
    program = another_thread_goes_on()
    old = "    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n"
    assert old in program["issued"]
    return changed(program, "issued", program["issued"].replace(old, hand_over)) | {
        "init": program["init"] + "\n    @lead mbarrier.init.shared::cta.b64 [bar+16], 1;",
    }


def stored_and_loaded() -> Program:
    """A warp loads again what it has stored."""
    x = shared()["ld"]
    return inserted(
        shared(),
        "store",
        "    tcgen05.st.sync.aligned.32x32b.x32.b32 [mine+32], {" + ", ".join(f"d{i}" for i in range(N)) + "};\n"
        "    tcgen05.wait::st.sync.aligned;\n" + x.replace("[mine]", "[mine+32]") + "\n"
        "    tcgen05.wait::ld.sync.aligned;",
    )


def halves() -> Program:
    """Two loads of 16 columns."""
    one, two = (", ".join(f"d{i}" for i in range(at, at + 16)) for at in (0, 16))
    return changed(
        shared(),
        "ld",
        f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{one}}}, [mine];\n"
        f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{two}}}, [mine+16];",
    )


def overwritten_behind_the_wait() -> Program:
    """Who has waited for the product may write its operands."""
    return inserted(shared(), "wait", OVERWRITE, before=False)


def freed_by_another_warp() -> Program:
    """The ISA lets any warp free, not only the one that has allocated."""
    return changed(shared(), "dealloc", shared()["dealloc"].replace("warp, 0", "warp, 2"))


def allocated_twice() -> Program:
    """Two allocations, both freed."""
    program = inserted(
        shared(), "alloc", "    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot2], 32;", before=False
    )
    program = inserted(program, "address", "    mov.u32 x0, slot2;\n    ld.shared.b32 am, [x0];", before=False)
    program = changed(
        program,
        "dealloc",
        program["dealloc"].replace("F_done:", "    tcgen05.dealloc.cta_group::1.sync.aligned.b32 am, 32;\nF_done:"),
    )
    return {"more": "    .shared .align 4 .b8 slot2[4];"} | program


def two_commits() -> Program:
    """Each commit is an arrival; the second one covers both products."""
    return inserted(shared(steps=2), "mma 0", COMMIT.replace("[bar]", "[bar+8]"), before=False) | {
        "init": shared()["init"] + "\n    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;",
    }


def first_warpgroup_rests() -> Program:
    """Of 256 threads the upper half loads: its warps have the same lanes."""
    program = shared()
    rows = program["store"].replace("mul.wide.u32 y0, tid", "sub.u32 x9, tid, 128;\n    mul.wide.u32 y0, x9")
    place = f"    add.u32 x12, s, {PLACE_B};\n"
    return program | {
        "fill": fill(len(LEFT.image), "a0", "s", 256) + place + fill(len(RIGHT.image), "a1", "x12", 256),
        "after": program["after"] + "\n    setp.lt.u32 q, tid, 128;\n    @q bra R_done;",
        "store": rows + "\nR_done:",
    }


SOUND: dict[str, tuple[Callable[[], Program], float]] = {  # and how often the product is in the result
    "plain": (shared, 1),
    "three products": (lambda: shared(steps=3), 3),
    "A in tensor memory": (tensor, 1),
    "over A of the product before": (over_the_factor, 1),
    "never relinquished": (without("relinquish"), 1),
    "512 columns": (lambda: shared(columns=512), 1),
    "second tile": (second_tile, 1),
    "two accumulators": (two_accumulators, 1),
    "one warp waits": (one_warp_waits, 1),
    "another thread goes on": (another_thread_goes_on, 1),
    "another thread goes on, relaxed": (relaxed, 1),
    "stored and loaded": (stored_and_loaded, 1),
    "halves": (halves, 1),
    "overwritten behind the wait": (overwritten_behind_the_wait, 1),
    "freed by another warp": (freed_by_another_warp, 1),
    "allocated twice": (allocated_twice, 1),
    "two commits": (two_commits, 2),
    "first warpgroup rests": (first_warpgroup_rests, 1),
    "relinquished late": (
        lambda: inserted(without("relinquish")(), "dealloc", shared()["relinquish"]),
        1,
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SOUND)
def test_sound_programs(name: str, schedule: str) -> None:
    make, times = SOUND[name]
    kinds, result = found(make(), schedule, 256 if name == "first warpgroup rests" else 128)
    assert not kinds
    np.testing.assert_allclose(result, times * ONCE, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("lack", ["before", "after"])
def test_relaxed_operations_need_both_fences(lack: str) -> None:
    kinds, _ = found(relaxed(**{lack: False}), "lazy")
    assert {"missing_wait", "missing_fence"} & set(kinds), kinds


@pytest.mark.parametrize("make", [shared, tensor, second_tile])
def test_what_synchronises_is_needed(make: Callable[[], Program]) -> None:
    """Without any one of its waits, fences, barriers, commits, and without its dealloc, a sound program is at fault."""
    program = make()
    a = A[:, :16] if "a st" in program else LEFT.image
    mutants = list(removals(text_of(program), "k"))
    assert len(mutants) >= 11
    for mutant in mutants:
        report = simulate(mutant.text, arguments(a, RIGHT.image, N), schedule="lazy", only_first=True)
        assert report.findings or "fence.mbarrier_init" in mutant.instruction, mutant  # a proxy fence does as well
