"""A persistent GEMM by roles, as CUTLASS and DeepGEMM write one, with one mistake each that is easily made there, found
by name; and variations of it that are as sound, about which the simulator is silent. ptxas takes all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitile.backends.nvidia.assemblers import find_ptxas
from minitile.runtime.sim import SimulationError
from minitile.runtime.sim.mutate.ptx import removals
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from tests.sim.ptx.blackwell import changed, inserted
from tests.sim.ptx.blackwell_roles import BYTES, PLACE_B, WORD, problem, program, simulate, text_of, waits

Program = dict[str, str]
SCHEDULES = ("lazy", "eager", "random")
WAITS = {"missing_barrier", "missing_wait", "missing_fence"}  # who came first may decide which one is missing


def without(*names: str) -> Callable[[], Program]:
    return lambda: {name: text for name, text in program().items() if name not in names}


def replaced(name: str, old: str, new: str, start: Callable[[], Program] = program) -> Callable[[], Program]:
    def make() -> Program:
        made = start()
        assert old in made[name], name
        return changed(made, name, made[name].replace(old, new))

    return make


def behind(name: str, more: str, start: Callable[[], Program] = program) -> Callable[[], Program]:
    return lambda: inserted(start(), name, more, before=False)


def before(name: str, more: str, start: Callable[[], Program] = program) -> Callable[[], Program]:
    return lambda: inserted(start(), name, more)


def swapped(first: str, second: str) -> Callable[[], Program]:
    def make() -> Program:
        made = program()
        return made | {first: made[second], second: made[first]}

    return make


ALLOC = program()["alloc"].splitlines()[-1]
DEALLOC = program()["dealloc"]
COMMIT_ACC = program()["M commit acc"]
STORE = "    tcgen05.st.sync.aligned.32x32b.x1.b32 [{0}], {{x0}};"
ARRIVE = program()["E arrive"].strip()
LANE_0 = "    bar.warp.sync 0xFFFFFFFF;\n    setp.eq.u32 q, lane, 0;\n    @q "
OF_WARPS = {"init": program()["init"].replace(", 128;", ", 4;")}

FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    # the ring of shared memory
    "a slot that is not waited for": ("missing_wait", without("M wait")),
    "a slot whose parity never changes": (
        "missing_wait",
        replaced("M step", "shr.u32 x1, count, 1", "shr.u32 x1, count, 4"),
    ),
    "a slot filled while products read it": ("missing_wait", without("P wait")),
    "a first turn that does not wait": ("deadlock", replaced("P step", "xor.b32 x1, x1, 1", "xor.b32 x1, x1, 0")),
    "a slot released by the thread, not by a commit": (
        "missing_wait",
        lambda: changed(program(), "M commit", "    mbarrier.arrive.shared::cta.b64 _, [empty];"),
    ),
    "a slot released in front of its last product": ("missing_wait", swapped("M mma 3", "M commit")),
    "bytes of A alone": ("missing_wait", replaced("P expect", str(BYTES), str(16384))),
    "bytes expected that do not come": ("deadlock", replaced("P expect", str(BYTES), str(BYTES + 16))),
    "A and B on the other slot's mbarrier": ("deadlock", replaced("P b", "[full]", "[bar]")),
    # accumulators
    "accumulators that are not waited for": ("missing_wait", without("M wait acc")),
    "accumulators given back in front of the loads": ("missing_wait", swapped("E arrive", "E ld")),
    "accumulators given back while loads are in flight": ("missing_barrier", swapped("E arrive", "E ld wait")),
    "given back without a fence": ("missing_fence", without("E before")),
    "a fence in front of the wait for loads": ("missing_fence", swapped("E before", "E ld wait")),
    "taken again without a fence": ("missing_fence", without("M after")),
    "a fence in front of the wait for accumulators": ("missing_fence", swapped("M wait acc", "M after")),
    "loaded without a fence": ("missing_fence", without("E after")),
    "a fence in front of the wait for products": ("missing_fence", swapped("E wait", "E after")),
    "a fence by one lane": (
        "missing_fence",
        replaced("E after", "    tcgen05", "    setp.eq.u32 q, lane, 0;\n    @q tcgen05"),
    ),
    "loaded in front of the wait": ("missing_wait", swapped("E wait", "E ld")),
    "full in front of the last product": (
        "missing_wait",
        before("M mma 3", f"    setp.eq.u32 r, k, 1;\n    @r {COMMIT_ACC.strip()}", without("M commit acc")),
    ),
    "one accumulator for two": ("missing_wait", replaced("M tile", "shl.b32 x3, x12, 5", "mov.u32 x3, 0")),
    "accumulators that overlap": ("missing_wait", replaced("M tile", "shl.b32 x3, x12, 5", "shl.b32 x3, x12, 4")),
    "nothing clears the accumulator": (
        "uninitialised",
        replaced("M descriptors", "setp.ne.u32 q, k, 0", "setp.eq.u32 q, 0, 0"),
    ),
    "another warp's lanes": ("lane_access", replaced("E", "and.b32 x1, warp, 3", "sub.u32 x1, warp, 3")),
    "all lanes issue": ("missing_wait", replaced("M", "setp.ne.u32 q, lane, 0", "setp.gt.u32 q, lane, 1")),
    # tensor memory
    "the address read too early": (
        "missing_barrier",
        lambda: inserted(without("meet")(), "address", "    bar.sync 0;", before=False),
    ),
    "fewer columns than two accumulators": (
        "out_of_bounds",
        lambda: replaced("dealloc", "tm, 64", "tm, 32", replaced("alloc", "[slot], 64", "[slot], 32"))(),
    ),
    "freed by the warp that multiplies, when it is done": (
        "missing_wait",
        lambda: (
            without("dealloc")()
            | {"M end": f"M_END:\n    bar.warp.sync 0xFFFFFFFF;\n{DEALLOC.splitlines()[2]}\n    bra END;"}
        ),
    ),
    "freed twice, by two warps": (
        "use_after_free",
        behind("dealloc", DEALLOC.replace("warp, 1", "warp, 2").replace("F_done", "G_done")),
    ),
    "allocated twice, freed once": ("tensor_memory_leak", behind("alloc", ALLOC.replace("[slot], 64", "[slot+4], 32"))),
    "allocated by a lane": (
        "divergent_barrier",
        replaced("alloc", "setp.ne.u32 q, warp, 1;", "setp.ne.u32 q, tid, 32;"),
    ),
    "threads store where products add": ("missing_wait", before("E wait", STORE.format("mine"))),
    "stored, and given back without a wait": ("missing_wait", before("E before", STORE.format("mine"))),
    # descriptors
    "a descriptor beyond shared memory": (
        "out_of_bounds",
        replaced("M", "mov.b32 word", f"add.u64 y5, y5, {(49152 - PLACE_B) >> 4};\n    mov.b32 word"),
    ),
    "rows that no copy fills": (
        "uninitialised",
        replaced("M", "mov.b32 word", f"add.u64 y5, y5, {8192 >> 4};\n    mov.b32 word"),
    ),
    "the descriptor's version": (
        "bad_descriptor",
        replaced("M", "mov.b32 word", f"sub.u64 y4, y4, {1 << 46};\n    mov.b32 word"),
    ),
    "N of another accumulator": ("missing_wait", replaced("M", f"word, {WORD}", f"word, {WORD + (2 << 17)}")),
}


QUICK = ("a slot that is not waited for", "a first turn that does not wait", "given back without a fence")
# What the same mistake is called in other schedules: where all products come before the first load, their order has no
# fault, but the phases have; what is read before anything has come has no value yet; and a slot that is announced anew
# while its phase is open gets an arrival too many.
ALSO = {
    "accumulators that are not waited for": "deadlock",
    "a slot that is not waited for": "uninitialised",
    "loaded in front of the wait": "uninitialised",
    "the address read too early": "uninitialised",
    "a slot filled while products read it": "barrier_mismatch",
}


def run(parts: Program, schedule: str, seed: int = 1) -> tuple[list[str], np.ndarray, np.ndarray]:
    args, out, exact = problem()
    report = simulate(text_of(parts), args, schedule=schedule, seed=seed, only_first=True)
    return [each.kind for each in report.findings], out, exact


def some_slow(names: Iterable[str], quick: Sequence[str]) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", some_slow(FAULTS, QUICK))
def test_faults(name: str) -> None:
    kind, make = FAULTS[name]
    for schedule in SCHEDULES:
        kinds, _, _ = run(make(), schedule)
        expected = {kind, ALSO.get(name, kind)} | (WAITS if kind in WAITS else set())
        assert expected & set(kinds), (schedule, kinds)


# Sound programs -----------------------------------------------------------------------------------------------------


SOUND: dict[str, Callable[[], Program]] = {
    "plain": program,
    "each warp arrives by a lane": lambda: changed(program(), "E arrive", LANE_0 + ARRIVE) | OF_WARPS,
    "a fence behind each wait for a slot": behind("M wait", "    tcgen05.fence::after_thread_sync;"),
    "permit never given up": without("relinquish"),
    "permit given up at the end": lambda: inserted(
        without("relinquish")(),
        "dealloc",
        program()["relinquish"].replace("    tc", "    setp.eq.u32 q, warp, 1;\n    @!q bra R_done;\n    tc")
        + "\nR_done:",
    ),
    "freed by another warp": replaced("dealloc", "warp, 1", "warp, 6"),
    "freed by the first warp of all": replaced("dealloc", "warp, 1", "warp, 0"),
    "a whole tensor memory": lambda: replaced(
        "dealloc", "tm, 64", "tm, 512", replaced("alloc", "[slot], 64", "[slot], 512")
    )(),
    "two allocations": lambda: inserted(
        behind("alloc", ALLOC.replace("[slot], 64", "[slot+4], 32"))(),
        "dealloc",
        "    mov.u32 x0, slot;\n    ld.shared.b32 x1, [x0+4];\n"
        + DEALLOC.replace("warp, 1", "warp, 2").replace("tm, 64", "x1, 32").replace("F_done", "G_done"),
    ),
    "B before A": swapped("P a", "P b"),
    "bytes announced by two": replaced(
        "P expect",
        f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {BYTES};",
        "    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 4096;\n"
        f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {BYTES - 4096};",
    ),
    "the producer waits for its last slots": lambda: producer_tail(),
    "loads in two halves": lambda: changed(program(), "E ld", halves()),
    "each half waited for by itself": lambda: changed(
        program(), "E ld", halves("\n    tcgen05.wait::ld.sync.aligned;")
    ),
    "loads of 64 bits by lanes": lambda: inserted(
        program(), "E ld wait", "    tcgen05.ld.sync.aligned.16x64b.x1.b32 {d40}, [mine];"
    ),
    "stores before they give back": lambda: moved("E arrive", "E store"),
    "waits for products twice": before("E after", waits("E_AGAIN", "x14", "x13")),
    "fences twice": behind("E before", "    tcgen05.fence::before_thread_sync;"),
    "a commit without a wait": lambda: spare_commit(),
    "products of another accumulator in between": lambda: third_accumulator(),
    "threads clear the accumulator": lambda: cleared(),
    "kept in tensor memory": lambda: scratch(),
    "tested, not awaited": lambda: {
        name: text.replace("mbarrier.try_wait", "mbarrier.test_wait") for name, text in program().items()
    },
    "waits in the cluster's scope": lambda: {
        name: text.replace("try_wait.parity.shared", "try_wait.parity.acquire.cluster.shared")
        for name, text in program().items()
    },
    "arrives in the cluster's scope": replaced(
        "E arrive", "mbarrier.arrive.shared::cta", "mbarrier.arrive.release.cluster.shared::cta"
    ),
    "roles by warps in another order": lambda: {
        name: text.replace("q, warp, 1;", "q, warp, 3;") for name, text in program().items()
    },
    "an epilogue that waits with one warp's lane": lambda: one_lane_waits(),
    "a barrier among the epilogue's warps": behind("E store", "    bar.sync 1, 128;"),
    "one product for each commit": lambda: commit_often(),
    "no second accumulator": lambda: single(),
}


def halves(between: str = "") -> str:
    one, two = (", ".join(f"d{i}" for i in range(at, at + 16)) for at in (0, 16))
    return (
        f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{one}}}, [mine];{between}\n"
        f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{two}}}, [mine+16];"
    )


def moved(name: str, to: str) -> Program:
    made = program()
    return inserted({k: v for k, v in made.items() if k != name}, to, made[name], before=False)


def producer_tail() -> Program:
    """As CUTLASS's producer_tail: no CTA ends while its mbarriers are still to be arrived at."""
    tail = program()["P step"].replace("P_STEP", "T_STEP") + "\n" + waits("T_EMPTY", "empty", "x1")
    tail += "\n    add.u32 count, count, 1;\n    add.u32 k, k, 1;\n    setp.lt.u32 q, k, 4;\n    @q bra T_STEP;"
    return replaced("P next", "    bra END;", f"{tail}\n    bra END;")()


def spare_commit() -> Program:
    """A commit to an mbarrier that no thread waits for."""
    made = program()
    made["init"] += "\n    @lead mbarrier.init.shared::cta.b64 [bar+64], 1;"
    commit = made["M commit acc"].replace("[x14]", "[bar+64]")
    return inserted(made, "M commit acc", commit)


def third_accumulator() -> Program:
    """Of 32 columns more, which no thread loads; its last product is complete when the commit behind it is."""
    made = replaced("dealloc", "tm, 64", "tm, 128", replaced("alloc", "[slot], 64", "[slot], 128"))()
    return inserted(
        made,
        "M mma 3",
        "    add.u32 x11, tm, 64;\n    setp.ne.u32 p, 0, 0;\n"
        "    tcgen05.mma.cta_group::1.kind::f16 [x11], y2, y3, word, p;",
        before=False,
    )


def cleared() -> Program:
    """All products add; the warps that load an accumulator clear it then, and once at the start."""
    registers = ", ".join(["x0"] * 32)
    clear = (
        "    mov.u32 x0, 0;\n    tcgen05.st.sync.aligned.32x32b.x32.b32 [{0}], {{" + registers + "}};\n"
        "    tcgen05.wait::st.sync.aligned;"
    )
    made = replaced("M descriptors", "setp.ne.u32 q, k, 0", "setp.eq.u32 q, 0, 0")()
    first = f"""{clear.format("x11")}
    add.u32 x4, x11, 32;
{clear.format("x4")}
    tcgen05.fence::before_thread_sync;
    mbarrier.arrive.shared::cta.b64 _, [bar+48];
    mbarrier.arrive.shared::cta.b64 _, [bar+56];"""
    made = inserted(made, "E", first, before=False)
    made = changed(made, "M tile", made["M tile"].replace("    xor.b32 x13, x13, 1;\n", ""))
    return inserted(made, "E before", clear.format("mine"))


def scratch() -> Program:
    """What is loaded is stored to other columns, of the warp's own lanes, and loaded from there."""
    made = replaced("dealloc", "tm, 64", "tm, 128", replaced("alloc", "[slot], 64", "[slot], 128"))()
    registers = ", ".join(f"d{i}" for i in range(32))
    there = f"""    add.u32 x4, x11, 64;
    tcgen05.st.sync.aligned.32x32b.x32.b32 [x4], {{{registers}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{registers}}}, [x4];
    tcgen05.wait::ld.sync.aligned;"""
    made = inserted(made, "end", "    tcgen05.fence::before_thread_sync;\n    bra LAST;")
    made["end"] = made["end"].replace("END:", "END:\nLAST:")
    return inserted(made, "E store", there)


def one_lane_waits() -> Program:
    """A lane of each warp waits; the others learn of it by the warp's barrier."""
    wait = f"{program()['E wait']}\nE_MET:\n    bar.warp.sync 0xFFFFFFFF;"
    return changed(program(), "E wait", f"    setp.ne.u32 q, lane, 0;\n    @q bra E_MET;\n{wait}")


def commit_often() -> Program:
    """A commit behind each product, to an mbarrier of so many arrivals."""
    made = program()
    made["init"] = made["init"].replace("[bar+16], 1", "[bar+16], 4").replace("[bar+24], 1", "[bar+24], 4")
    for i in range(3):
        made = inserted(made, f"M mma {i}", made["M commit"], before=False)
    return made


def single() -> Program:
    """One accumulator, which products and the epilogue have in turn."""
    made = {}
    for name, text in program().items():
        if name in ("M tile", "E tile"):
            text = text.replace("and.b32 x12, tile, 1", "mov.u32 x12, 0").replace(
                "shr.u32 x13, tile, 1", "mov.u32 x13, tile"
            )
        made[name] = text
    return made


@pytest.mark.parametrize("name", some_slow(SOUND, ["plain", "threads clear the accumulator"]))
def test_sound_programs(name: str) -> None:
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 1), ("random", 3)):
        kinds, out, exact = run(SOUND[name](), schedule, seed)
        assert not kinds, schedule
        np.testing.assert_array_equal(out, exact)


@pytest.mark.slow
@pytest.mark.parametrize("candidates", [removals, weaker_mutants])
def test_all_of_it_is_needed(candidates: Any) -> None:
    """Without any instruction that synchronises, or where one is weaker, it is at fault; but that a lane's loads are
    told of by others of its warp, since a warp loads as one."""
    mutants = list(candidates(text_of(program()), "k"))
    assert len(mutants) >= 20
    survivors = [
        str(mutant)
        for mutant in mutants
        if not any(
            simulate(mutant.text, problem()[0], schedule=schedule, seed=2, only_first=True).findings
            for schedule in SCHEDULES
        )
    ]
    known = (", 128 -> ", "bar.warp.sync")
    assert [each for each in survivors if not any(word in each for word in known)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind::f16 [acc]", "kind::f16.collector::a::fill [acc]"),
        ("mma.cta_group::1.kind", "mma.ws.cta_group::1.kind"),
        ("tcgen05.ld.sync", "tcgen05.ld.red.sync"),
    ],
)
def test_what_is_not_simulated_is_refused(old: str, new: str) -> None:
    """By name, and not executed as something else."""
    text = text_of(program())
    assert old in text
    with pytest.raises(SimulationError):
        simulate(text.replace(old, new), problem()[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_ptxas_takes_them(target: str, tmp_path: Path) -> None:
    ptxas = find_ptxas(text_of(program()))
    if ptxas is None:
        pytest.skip("no ptxas")
    for number, make in enumerate([*SOUND.values(), *(make for _, make in FAULTS.values())]):
        file = tmp_path / f"{number}.ptx"
        file.write_text(text_of(make()).replace("sm_100a", target))
        command = [str(ptxas.path), f"-arch={target}", str(file), "-o", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
