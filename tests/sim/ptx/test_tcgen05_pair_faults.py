"""Programs of pairs of CTAs with one fault each, found by name, and sound ones that are near to them, about which the
simulator is silent. All of them assemble."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import TensorMap, run_ptx
from tests.sim.ptx.blackwell import assembles, changed, inserted, lay_out, parts, product_word, wait
from tests.sim.ptx.blackwell import text_of as one_cta_text
from tests.sim.ptx.blackwell_pair import COMMIT, MEET, filled, loaded, result, rows_of, simulate, text_of

Program = dict[str, str]
M, N = 256, 32
SCHEDULES = ("lazy", "eager", "random")
WORD = product_word("bf16", "bf16", M, N)
_rng = np.random.default_rng(5)
A = _rng.standard_normal((M, 64)).astype(ml_dtypes.bfloat16)
B = _rng.standard_normal((N, 64)).astype(ml_dtypes.bfloat16)
LEFT, RIGHT = ([lay_out(half, 128, False) for half in np.split(each, 2)] for each in (A, B))
LEFT_ALONE = lay_out(A[:128], 128, False)
ONCE = A[:, :16].astype(np.float64) @ B[:, :16].astype(np.float64).T
WHOLE = A.astype(np.float64) @ B.astype(np.float64).T


def threads(word: int = WORD, m: int = M, n: int = N) -> Program:
    """Operands that threads copy."""
    return filled(LEFT[0], RIGHT[0], word, "f16", m, n)


def tma() -> Program:
    """Operands that TMA loads."""
    return loaded(M, N, WORD)


def without(*names: str, program: Callable[[], Program] = threads) -> Callable[[], Program]:
    return lambda: {name: text for name, text in program().items() if name not in names}


def replaced(name: str, old: str, new: str, program: Callable[[], Program] = threads) -> Callable[[], Program]:
    def make() -> Program:
        assert old in program()[name], name
        return changed(program(), name, program()[name].replace(old, new))

    return make


ODD = "    setp.eq.u32 q, rank, 1;\n"
ONE_MEETS = "    bar.sync 0;"
OVERWRITE = "    @lead st.shared.b32 [s], x0;"

FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    # the pair as such
    "alloc of one CTA's, mma of a pair's": ("cta_group_mismatch", replaced("mma 0", "cta_group::2", "cta_group::1")),
    "allocated by one CTA only": (
        "deadlock",
        replaced("alloc", "setp.ne.u32 q, warp, 0;", "or.b32 x9, warp, rank;\n    setp.ne.u32 q, x9, 0;"),
    ),
    "allocated by warps of different numbers": (
        "tensor_memory_alloc",
        replaced("alloc", "setp.ne.u32 q, warp, 0;", "setp.ne.u32 q, warp, rank;"),
    ),
    "different numbers of columns": (
        "tensor_memory_alloc",
        replaced("alloc", "[slot], 64", "[slot], x9"),
    ),
    "addresses at different places": (
        "tensor_memory_alloc",
        replaced("alloc", "[slot]", "[x9]"),
    ),
    "freed by one CTA only": (
        "deadlock",
        replaced("dealloc", "setp.ne.u32 q, warp, 0;", "or.b32 x9, warp, rank;\n    setp.ne.u32 q, x9, 0;"),
    ),
    "freed before the other CTA has read": ("missing_barrier", replaced("last meet", MEET, ONE_MEETS)),
    "freed without a fence before": ("missing_fence", without("before")),
    "freed by the one, then meets the other": (
        "deadlock",
        lambda: (
            inserted(threads(), "dealloc", f"{ODD}    @q bra LATE;")
            | {"late": f"    bra OVER;\nLATE:\n{MEET}\n{threads()['dealloc'].replace('F_done', 'G_done')}\nOVER:"}
        ),
    ),
    "the other CTA has ended": (
        "missing_barrier",
        lambda: (
            inserted(without("last meet", "dealloc")(), "acquire", f"{ODD}    @q bra F_done;\n{MEET}")
            | {"end": "F_done:"}
        ),
    ),
    "the other CTA ends beside the product": (
        "missing_wait",
        lambda: inserted(without("last meet", "dealloc")(), "acquire", f"{ODD}    @q bra F_done;") | {"end": "F_done:"},
    ),
    "freed as one CTA's": ("cta_group_mismatch", replaced("dealloc", "cta_group::2", "cta_group::1")),
    "the permit of one CTA": ("cta_group_mismatch", replaced("relinquish", "cta_group::2", "cta_group::1")),
    "a commit of one CTA": ("cta_group_mismatch", replaced("commit", "cta_group::2", "cta_group::1")),
    # operands
    "only the even CTA fills its half": (
        "uninitialised",
        lambda: (
            inserted(threads(), "fill", "    setp.ne.u32 q, rank, 0;\n    @q bra FILLED;")
            | {"proxy fence": "FILLED:\n" + threads()["proxy fence"]}
        ),
    ),
    "the other CTA's operands without a barrier": ("missing_barrier", replaced("meet", MEET, ONE_MEETS)),
    "the other CTA's operands without a proxy fence": ("missing_proxy_fence", without("proxy fence")),
    "the other CTA's operands without the reader's proxy fence": ("missing_proxy_fence", without("acquire")),
    "the other CTA overwrites its operands too early": (
        "missing_wait",
        lambda: inserted(threads(), "wait", f"{ODD}    and.pred q, q, lead;\n    @q st.shared.b32 [s], x0;"),
    ),
    "M = 64 of a pair": ("bad_descriptor", lambda: threads(word=WORD & ~(31 << 24) | 4 << 24)),
    "N = 24 of a pair": ("bad_descriptor", lambda: threads(word=WORD & ~(63 << 17) | 3 << 17)),
    # completion
    "the other CTA does not wait": (
        "missing_wait",
        lambda: inserted(threads(), "wait", f"{ODD}    @q bra NOW;") | {"after": "NOW:\n" + threads()["after"]},
    ),
    "a commit to the own CTA only": ("deadlock", replaced("address", "mov.b16 mask, 3", "mov.b16 mask, 1")),
    "a commit to a CTA outside the cluster": (
        "barrier_mismatch",
        replaced("address", "mov.b16 mask, 3", "mov.b16 mask, 7"),
    ),
    "no fence behind the wait": ("missing_fence", without("after")),
    "both CTAs multiply": ("missing_wait", replaced("start", "    setp.ne.u32 q, rank, 0;\n    @q bra M_done;\n", "")),
    # TMA
    "a load onto the other CTA's mbarrier": (
        "barrier_mismatch",
        replaced("load a", ".cta_group::2", ".cta_group::1", program=tma),
    ),
    "loads onto each CTA's own mbarrier": ("deadlock", replaced("leader", "0xFEFFFFFF", "0xFFFFFFFF", program=tma)),
    "bytes of one CTA expected": (
        "deadlock",
        replaced("expect", str((M + N) * 128), str((M + N) * 64), program=tma),
    ),
    "the odd CTA waits for its own mbarrier": (
        "deadlock",
        lambda: inserted(tma(), "wait", f"    setp.eq.u32 q, rank, 0;\n    @q bra NOT_ODD;\n{wait('own')}\nNOT_ODD:"),
    ),
    "multiplied before the loads": ("missing_wait", without("full", program=tma)),
    "the mbarrier is not ready for the other CTA": ("missing_barrier", replaced("meet", MEET, ONE_MEETS, program=tma)),
    "loaded again while it is read": (
        "missing_wait",
        lambda: inserted(
            tma(),
            "wait",
            tma()["load a"].replace("@lead", "@r").replace("    mul", f"{ODD}    and.pred r, q, lead;\n    mul"),
        ),
    ),
}
PREPARED = {"different numbers of columns": "    shl.b32 x9, rank, 6;\n    add.u32 x9, x9, 64;"}
PREPARED["addresses at different places"] = "    mov.u32 x9, slot;\n    shl.b32 x8, rank, 2;\n    add.u32 x9, x9, x8;"


def run(program: Program, schedule: str, first: str = "") -> tuple[list[str], np.ndarray]:
    maps = 2 if "load a" in program else 0
    text = text_of({"first": first} | program, maps=maps).replace("slot[4]", "slot[8]")
    if "cta_group::1 " not in text and "cta_group::1." not in text.replace("bytes.cta_group::1", ""):
        assembles(text)  # the assembler itself refuses a kernel that has both
    out = result(M, N)
    if maps:
        args: list[object] = [TensorMap(A, (M // 2, 64), 128), TensorMap(B, (N // 2, 64), 128), out]
    else:
        args = [*(np.concatenate([half.image for half in each]) for each in (LEFT, RIGHT)), out]
    report = simulate(text, args, schedule=schedule, seed=3)
    return [each.kind for each in report.findings], out


@pytest.mark.parametrize("schedule", ["lazy", *(pytest.param(each, marks=pytest.mark.slow) for each in SCHEDULES[1:])])
@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, schedule: str) -> None:
    kind, make = FAULTS[name]
    kinds, _ = run(make(), schedule, PREPARED.get(name, ""))
    waits = {"missing_barrier", "missing_wait", "missing_fence"}  # who came first may decide which one is missing
    if kind == "deadlock" and schedule != "lazy":  # a dealloc may go on without the other CTA, and then all goes well
        freed = name == "freed by the one, then meets the other"
        assert set(kinds) <= {"deadlock"} if freed else kinds
    else:
        assert kind in kinds or (schedule == "random" and kind in waits and waits & set(kinds)), kinds


# Sound programs -----------------------------------------------------------------------------------------------------


def leader_by_mapa() -> Program:
    """The even CTA's mbarrier by mapa, not by clearing a bit."""
    return changed(
        tma(),
        "leader",
        "    and.b32 x9, rank, 0xFFFFFFFE;\n    mapa.shared::cluster.u32 x8, bar, x9;\n    mov.u32 x5, 0;",
    )


def odd_cta_issues() -> Program:
    """A thread of the odd CTA multiplies; rows stay where they are."""
    return replaced("start", "setp.ne.u32 q, rank, 0;", "setp.ne.u32 q, rank, 1;")()


def one_commit_for_each() -> Program:
    """Two commits, each to one CTA's mbarrier."""
    one = COMMIT.format(at="").replace(".multicast::cluster", "").replace(", mask", "")
    return changed(
        threads(), "commit", one + "\n    mapa.shared::cluster.u32 x9, bar, 1;\n" + one.replace("[bar]", "[x9]")
    )


def overwritten_behind_the_wait() -> Program:
    """Each CTA may write its operands when it has waited for the product."""
    return inserted(threads(), "wait", OVERWRITE, before=False)


def second_tile() -> Program:
    """The accumulator is used again: the even CTA knows that both have read it."""
    again = f"""    tcgen05.fence::before_thread_sync;
{MEET}
    tcgen05.fence::after_thread_sync;
{threads()["start"].replace("M_done", "N_done")}
{threads()["mma 0"]}
{COMMIT.format(at="")}
N_done:
{wait("two", 1)}
    tcgen05.fence::after_thread_sync;
{threads()["ld"]}
    tcgen05.wait::ld.sync.aligned;
{threads()["store"]}"""
    return inserted(threads(), "before", again)


def told_by_an_mbarrier() -> Program:
    """The accumulator is used again: each warp arrives at the even CTA's mbarrier, in the cluster's scope."""
    arrive = """    tcgen05.fence::before_thread_sync;
    bar.warp.sync 0xFFFFFFFF;
    setp.eq.u32 q, lane, 0;
    mapa.shared::cluster.u32 x9, bar, 0;
    @q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x9+8];"""
    start = threads()["start"].replace("M_done", "N_done")
    free = "V:\n    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar+8], 0;\n    @!p bra V;"
    again = f"""{arrive}
{start}
{free}
    tcgen05.fence::after_thread_sync;
{threads()["mma 0"]}
{COMMIT.format(at="")}
N_done:
{wait("two", 1)}
    tcgen05.fence::after_thread_sync;
{threads()["ld"]}
    tcgen05.wait::ld.sync.aligned;
{threads()["store"]}"""
    program = inserted(threads(), "before", again)
    return program | {"init": program["init"] + "\n    @lead mbarrier.init.shared::cta.b64 [bar+8], 8;"}


def in_too_narrow_a_scope() -> Program:
    """The same in the default scope, of a CTA: the other CTA's loads are not in order with the product then."""
    return {
        name: text.replace(".release.cluster.shared::cluster.b64 _, [x9+8]", ".shared::cluster.b64 _, [x9+8]")
        for name, text in told_by_an_mbarrier().items()
    }


def loaded_again() -> Program:
    """A slot is filled again when the commit has told both CTAs that it has been read."""
    turn = f"""{tma()["expect"]}
{tma()["load a"]}
{tma()["load b"]}
{tma()["descriptors"]}
{tma()["start"].replace("M_done", "N_done")}
{wait("again", 1)}
""" + "\n".join(text for name, text in tma().items() if name.startswith("mma"))
    turn += f"""
{COMMIT.format(at="+8")}
N_done:
{wait("more", 1).replace("[bar]", "[bar+8]")}
    tcgen05.fence::after_thread_sync;
{tma()["ld"]}
    tcgen05.wait::ld.sync.aligned;
{tma()["store"]}"""
    between = f"    tcgen05.fence::before_thread_sync;\n{MEET}\n    tcgen05.fence::after_thread_sync;"
    return inserted(tma(), "before", f"{between}\n{turn}")


def without_roles_of_ctas() -> Program:
    """One warp of each CTA waits, and lets the others know."""
    tell = "\n    tcgen05.fence::before_thread_sync;\n    bar.sync 0;"
    return changed(threads(), "wait", f"    setp.ne.u32 q, warp, 1;\n    @q bra X;\n{wait('product')}\nX:{tell}")


SOUND: dict[str, tuple[Callable[[], Program], np.ndarray]] = {
    "plain": (threads, ONCE),
    "by TMA": (tma, WHOLE),
    "never relinquished": (without("relinquish"), ONCE),
    "the leader by mapa": (leader_by_mapa, WHOLE),
    "the odd CTA issues": (odd_cta_issues, ONCE),
    "a commit for each CTA": (one_commit_for_each, ONCE),
    "overwritten behind the wait": (overwritten_behind_the_wait, ONCE),
    "second tile": (second_tile, ONCE),
    "told by an mbarrier": (told_by_an_mbarrier, ONCE),
    "loaded again": (loaded_again, WHOLE),
    "one warp waits": (without_roles_of_ctas, ONCE),
    "freed by another warp": (replaced("dealloc", "warp, 0", "warp, 2"), ONCE),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SOUND)
def test_sound_programs(name: str, schedule: str) -> None:
    make, expected = SOUND[name]
    kinds, out = run(make(), schedule)
    assert not kinds
    np.testing.assert_allclose(rows_of(out, M), expected, rtol=1e-5, atol=1e-4)


def test_the_scope_that_orders_a_pair() -> None:
    kinds, _ = run(in_too_narrow_a_scope(), "lazy")
    assert "missing_barrier" in kinds


def slot_told_to_the_neighbour(*, waits: bool) -> str:
    """CTAs by themselves: each multiplies, and commits to its own mbarrier and to one of the other's, which waits for
    that or ends."""
    single = parts(LEFT_ALONE, RIGHT[0], product_word("bf16", "bf16", 128, 16), "f16", 16)
    commit = (
        "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar+8], mask;"
    )
    single = inserted(single, "commit", f"    mov.b16 mask, 2;\n    setp.eq.u32 r, rank, 0;\n    @r {commit.strip()}")
    single["init"] += "\n    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;"
    single = inserted(single, "start", MEET)
    if waits:
        told = wait("told").replace("[bar]", "[bar+8]")
        single = inserted(single, "last meet", f"    setp.eq.u32 r, rank, 0;\n    @r bra T;\n{told}\nT:")
    return one_cta_text(single).replace(".reg .b32 tm", ".reg .b16 mask;\n    .reg .b32 tm")


@pytest.mark.parametrize("waits", [True, False])
def test_a_commit_arrives_where_a_thread_waits(waits: bool) -> None:
    text = slot_told_to_the_neighbour(waits=waits)
    assembles(text)
    args = [LEFT_ALONE.image, RIGHT[0].image, np.zeros((128, 16), np.float32)]
    report = run_ptx(text, "k", (2,), (128,), args, cluster=(2, 1, 1), dynamic_shared=98304)
    kinds = {each.kind for each in report.findings if each.space == "tensor"}
    assert kinds == (set() if waits else {"missing_wait"})
