"""Programs with block scales and tcgen05.cp, and with other shapes of tcgen05.ld and st, with one fault each, found by
name, and sound ones that are near to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minitile.runtime.sim import SimulationError
from minitile.runtime.sim.mutate.ptx import removals
from tests.sim.ptx import blackwell, blackwell_pair
from tests.sim.ptx.blackwell import assembles, changed, inserted
from tests.sim.ptx.blackwell_scaled import Format, Problem, one, pair

Program = dict[str, str]
SCHEDULES = ("lazy", "eager", "random")
MX8 = Format("mxf8f6f4", "", "e4m3", "e4m3", "ue8m0", 1)
NV4 = Format("mxf4nvf4", ".block16", "e2m1", "e2m1", "ue4m3", 4)
MX4 = Format("mxf4", "", "e2m1", "e2m1", "ue8m0", 2)
N = 32
PROBLEMS = {form: Problem(form, 128, N, 1) for form in (MX8, NV4, MX4)}


def plain(form: Format = MX8) -> Program:
    return one(PROBLEMS[form])[0]


def without(*names: str) -> Callable[[], Program]:
    return lambda: {name: text for name, text in plain().items() if name not in names}


def word(bits: int, form: Format = MX8, clear: int = 0) -> Callable[[], Program]:
    """The first product's descriptor with other bits."""

    def make() -> Program:
        old = form.word(128, N, 0)
        text = plain(form)["mma 0"]
        assert f"word, {old};" in text
        return changed(plain(form), "mma 0", text.replace(f"word, {old};", f"word, {(old & ~clear) ^ bits};"))

    return make


def stored(*, waits: bool = True, fences: bool = True, meets: bool = True) -> Program:
    """Scales of A that threads have stored: each warp the same four columns into its own lanes. (Rows then have the
    factors of 2 ** 0.)"""
    registers = ", ".join(["x9"] * 4)
    lines = [
        f"    mov.b32 x9, 0x7F7F7F7F;\n    tcgen05.st.sync.aligned.32x32b.x4.b32 [mine+64], {{{registers}}};",
        "    tcgen05.wait::st.sync.aligned;" if waits else "",
        "    tcgen05.fence::before_thread_sync;" if fences else "",
        "    bar.sync 0;" if meets else "",
        "    tcgen05.fence::after_thread_sync;" if fences else "",
    ]
    return inserted({k: v for k, v in plain().items() if k != "cp a"}, "start", "\n".join(lines))


def renewed() -> Program:
    """Scales are copied again behind the products that use them, as CUTLASS and DeepGEMM do."""
    return inserted(plain(), "mma 3", plain()["cp a"], before=False)


def copied_elsewhere() -> Program:
    """What is copied is loaded by threads, behind a commit."""
    load = (
        "    tcgen05.ld.sync.aligned.32x32b.x4.b32 {x8, x9, x10, x11}, [mine+64];\n    tcgen05.wait::ld.sync.aligned;"
    )
    return inserted(plain(), "after", load, before=False)


FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    # copies
    "scales never copied": ("uninitialised", without("cp a")),
    "scales copied behind the products": (
        "uninitialised",
        lambda: inserted(without("cp b")(), "mma 3", plain()["cp b"], before=False),
    ),
    "scales without a proxy fence": ("missing_proxy_fence", without("proxy fence")),
    "scales without a barrier": ("missing_barrier", without("meet")),
    "scales' source overwritten too early": (
        "missing_wait",
        lambda: inserted(plain(), "wait", "    @lead st.shared.b32 [s+65536], x0;"),
    ),
    "copied, and loaded before the commit": (
        "missing_wait",
        lambda: inserted(plain(), "wait", "    tcgen05.ld.sync.aligned.32x32b.x4.b32 {x8, x9, x10, x11}, [mine+64];"),
    ),
    "copied, and loaded without a fence": (
        "missing_fence",
        lambda: inserted(plain(), "after", "    tcgen05.ld.sync.aligned.32x32b.x4.b32 {x8, x9, x10, x11}, [mine+64];"),
    ),
    "copied by another thread without order": (
        "missing_wait",
        lambda: (
            inserted(without("cp a")(), "start", plain()["cp a"].replace("    tcgen05", "    @r tcgen05"))
            | {"descriptors": plain()["descriptors"] + "\n    setp.eq.u32 r, tid, 64;"}
        ),
    ),
    "copied to where nothing is allocated": (
        "out_of_bounds",
        lambda: changed(plain(), "cp a", plain()["cp a"].replace("[tm+64]", "[tm+128]")),
    ),
    "copied to lane 32": (
        "lane_access",
        lambda: changed(plain(), "cp a", plain()["cp a"].replace("[tm+64]", "[tm+2097216]")),
    ),
    "a copy's descriptor of sm_90a": (
        "bad_descriptor",
        lambda: inserted(plain(), "cp a", f"    sub.u64 y1, y1, {1 << 46};"),
    ),
    "scales in the first 32 lanes only": (
        "uninitialised",
        lambda: changed(
            without("cp a")(),
            "start",
            "    setp.eq.u32 r, warp, 0;\n    @!r bra ST;\n    mov.b32 x9, 0;\n"
            "    tcgen05.st.sync.aligned.32x32b.x4.b32 [mine+64], {x9, x9, x9, x9};\n"
            "    tcgen05.wait::st.sync.aligned;\n    tcgen05.fence::before_thread_sync;\nST:\n    bar.sync 0;\n"
            "    tcgen05.fence::after_thread_sync;\n    @!lead bra M_done;",
        ),
    ),
    "scales that differ between 32 lanes": (
        "scales_not_duplicated",
        lambda: changed(stored(), "start", stored()["start"].replace("mov.b32 x9, 0x7F7F7F7F", "mov.b32 x9, warp")),
    ),
    "scales stored and not waited for": ("missing_wait", lambda: stored(waits=False)),
    "scales stored without fences": ("missing_fence", lambda: stored(fences=False)),
    "scales stored without a barrier": ("missing_barrier", lambda: stored(meets=False)),
    "overwritten by threads while products read": (
        "missing_wait",
        lambda: inserted(
            plain(), "wait", "    mov.b32 x9, 0;\n    tcgen05.st.sync.aligned.32x32b.x1.b32 [mine+64], {x9};"
        ),
    ),
    # descriptors and forms
    "M = 64 with scales": ("bad_descriptor", word(4 << 24, clear=31 << 24)),
    "scales that begin in the middle": ("bad_descriptor", word(1 << 29, form=MX4)),
    "scales of the other format": ("bad_descriptor", word(1 << 23)),
    "K = 96": ("bad_descriptor", word(1 << 31, form=NV4)),
    "four-bit operands that are MN-major": ("bad_descriptor", word(1 << 15, form=MX4)),
    "four-bit operands by the other kind's number": ("bad_descriptor", word(5 << 7, form=NV4, clear=7 << 7)),
    "scales at lane 16": (
        "lane_access",
        lambda: changed(plain(), "mma 0", plain()["mma 0"].replace("[tm+64]", "[tm+1048640]")),
    ),
    "another kind onto the same accumulator": (
        "missing_wait",
        lambda: inserted(
            plain(),
            "mma 3",
            f"    mov.b32 word, {1 << 4 | N >> 3 << 17 | 8 << 24};\n"
            "    tcgen05.mma.cta_group::1.kind::f8f6f4 [tm], y2, y3, word, q;",
            before=False,
        ),
    ),
    # other shapes of ld and st
    "lanes 16 of another warp": (
        "lane_access",
        lambda: inserted(
            plain(), "ld wait", "    tcgen05.ld.sync.aligned.16x64b.x1.b32 {x8}, [tm+1048576];", before=False
        ),
    ),
    "registers of a 16x256b too early": (
        "missing_wait",
        lambda: inserted(
            plain(),
            "ld wait",
            "    tcgen05.ld.sync.aligned.16x256b.x1.b32 {x8, x9, x10, x11}, [mine];\n    add.u32 x8, x9, 1;",
            before=False,
        ),
    ),
    "more columns than there are": (
        "out_of_bounds",
        lambda: inserted(
            plain(), "ld wait", "    tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {x8}, [mine], 128;", before=False
        ),
    ),
    "the second half of a load never written": (
        "uninitialised",
        lambda: inserted(
            plain(), "ld wait", "    tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {x8}, [mine], 96;", before=False
        ),
    ),
}


def run(program: Program, form: Format, schedule: str) -> tuple[list[str], np.ndarray]:
    text = blackwell.text_of(program, pointers=4)
    assembles(text)
    args = one(PROBLEMS[form])[1]
    report = blackwell.simulate(text, args, schedule=schedule, seed=4)
    return [each.kind for each in report.findings], args[2]


def form_of(program: Program) -> Format:
    return next(form for form in (NV4, MX4, MX8) if f"kind::{form.kind}.block" in program["mma 1"])


@pytest.mark.parametrize("schedule", ["lazy", *(pytest.param(each, marks=pytest.mark.slow) for each in SCHEDULES[1:])])
@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, schedule: str) -> None:
    kind, make = FAULTS[name]
    program = make()
    kinds, _ = run(program, form_of(program), schedule)
    waits = {"missing_barrier", "missing_wait", "missing_fence"}  # who came first may decide which one is missing
    assert kind in kinds or (schedule == "random" and kind in waits and waits & set(kinds)), kinds


SOUND: dict[str, Callable[[], Program]] = {
    "plain": plain,
    "four bits": lambda: plain(NV4),
    "scales renewed behind the products": renewed,
    "copied, and loaded behind a commit": copied_elsewhere,
    "scales that threads have stored": stored,
    "loads of other shapes": lambda: inserted(
        plain(),
        "ld wait",
        "    tcgen05.ld.sync.aligned.16x256b.x1.b32 {x8, x9, x10, x11}, [mine+1048576];\n"
        "    tcgen05.ld.sync.aligned.16x32bx2.x1.pack::16b.b32 {x12}, [mine], 16;",
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SOUND)
def test_sound_programs(name: str, schedule: str) -> None:
    program = SOUND[name]()
    form = form_of(program)
    kinds, out = run(program, form, schedule)
    assert not kinds
    if name != "scales that threads have stored":
        np.testing.assert_allclose(out, PROBLEMS[form].exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind::mxf8f6f4.block_scale", "kind::mxf8f6f4.block_scale.scale_vec::2X"),
        ("kind::mxf8f6f4.block_scale", "kind::mxf8f6f4.block_scale.block16"),
        ("kind::mxf8f6f4.block_scale", "kind::mxf4.block_scale.scale_vec::4X"),
        ("kind::mxf8f6f4.block_scale", "kind::mxf4nvf4.block_scale"),
    ],
)
def test_vectors_that_a_kind_has_not(old: str, new: str) -> None:
    text = blackwell.text_of(plain(), pointers=4).replace(old, new)
    with pytest.raises(SimulationError, match="has no products"):
        blackwell.simulate(text, one(PROBLEMS[MX8])[1])
    with pytest.raises(AssertionError):
        assembles(text)


@pytest.mark.parametrize("pairs", [False, True])
def test_what_synchronises_is_needed(pairs: bool) -> None:
    problem = Problem(MX8, 256, N, 2) if pairs else PROBLEMS[MX8]
    module = blackwell_pair if pairs else blackwell
    make = pair if pairs else one
    text = module.text_of(make(problem)[0], pointers=4)
    mutants = list(removals(text, "k"))
    assert len(mutants) >= 11
    for mutant in mutants:
        report = module.simulate(mutant.text, make(problem)[1], schedule="lazy", only_first=True)
        assert report.findings or "fence.mbarrier_init" in mutant.instruction, mutant  # a proxy fence does as well
