"""The field's names: words of our own that have a standard one stay out of files, identifiers, IR text and prose.

Each rule is the word that was, the standard one, and a regular expression; ALLOWED says where a word means something
else. Sources of the standard names: CUDA C++ Programming Guide, PTX ISA, CUTLASS, LLVM, Triton, TileLang.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("minitile", "backends", "runtime", "tests", "examples", "benchmarks", "docs", "README.md", "CONTRIBUTING.md")
TEXTS = (".py", ".md", ".mt", ".toml", ".sh")

# word → (standard name, expression)
RULES: dict[str, tuple[str, str]] = {
    "specialise": ("warp_specialize", r"\bspecialise\b(?! (for|on|by|to)\b)"),
    "one_role": ("tma_multistage", r"\bone_role\b"),
    "rings": ("producer_partition", r"\brings\.py\b"),
    "Clock": ("PipelineState", r"\bClock\b"),
    "channel": ("mbarrier pipeline", r"\b[Cc]hannels?\b"),
    "acquire": ("producer_acquire", r"\broles\.(Acquire|Receive|Release|Expect|Feed)\b"),
    "teams": ("ping-pong consumer warpgroups", r"\bteams\.py\b"),
    "baton": ("order barrier", r"\b[Bb]atons?\b"),
    "turns": ("order barrier", r"\b(drop|open|take|pass)_turns?\b|\btake turns\b|\bin turns\b"),
    "split_roles": ("partition_warpgroups", r"\bsplit_roles\b"),
    "ahead_of_grid": ("pdl_prefetch", r"\bahead_of_grid\b"),
    "flights": ("lower_manual_wgmma", r"[`\"']flights[`\"']"),
    "first_products": ("accumulator_init", r"\bfirst_products\b"),
    "late_waits": ("sink_wgmma_waits", r"\blate_waits\b"),
    "delay_waits": ("sink_bulk_store_waits", r"\bdelay_waits\b"),
    "complete_stores": ("insert_bulk_store_waits", r"\bcomplete_stores\b"),
    "global_waits": ("insert_vmcnt_waits", r"\bglobal_waits\b"),
    "count_tokens": ("resolve_wait_counts", r"\bcount_tokens\b"),
    "leading_versions": ("detect_multibuffers", r"\bleading_versions\b"),
    "forget_corners": ("drop_access_ranges", r"\bforget_corners\b|\bcorners?\b"),
    "strip_mine": ("chunk_epilogue", r"\bstrip_mine\b|\b[Ss]trip.min"),
    "guard_masks": ("version_masks", r"\bguard_masks\b"),
    "fragments_to_values": ("mem2reg", r"\bfragments_to_values\b"),
    "parallel_to_tiles": ("tile_vectorize", r"\bparallel_to_tiles\b"),
    "place_shared": ("allocate_shared_memory", r"\bplace_shared\b"),
    "choose_shared": ("select_shared_layout", r"\bchoose_shared\b"),
    "hazards": ("memory dependence", r"\bhazards\.py\b"),
    "Touch": ("MemoryAccess", r"\bTouch(Set)?\b|\btouch_set\b"),
    "proxy_order": ("async_happens_before", r"\bproxy_order\b"),
    "fence_marks": ("fence_dataflow", r"\bfence_(marks|places)\b"),
    "check_channels": ("verify_pipelines", r"\bcheck_channels\b"),
    "homes": ("register coalescing", r"\bhomes?\b"),
    "pinned": ("scheduling-barrier retry", r"\bgenerate_pinned\b|\bpinned\.py\b"),
    "recount": ("waitcnt verification", r"\b[Rr]ecount(s|ed|ing)?\b"),
    "row_store": ("coalesced store", r"\brow_stores?\b"),
    "Deal": ("interleaved slice", r"\bDeals?\b|\bdealt_b|\bdealt\b"),
    "by_hand": ("explicit synchronisation", r"\bby_hand\b|\bBY_HAND\b"),
    "raster": ("block swizzle", r"\braster\b"),
    "blocks that stay": ("persistent kernel", r"\bblocks that stay\b|\bblocks stay\b"),
    "change places": ("swap A/B", r"\b(change|changes|changed|changing) places\b"),
    "parts of K": ("split-K", r"\bK in parts\b|\bparts of K\b|\bin parts of K\b"),
    "Hilbert's curve": ("Hilbert order", r"\bHilbert's curve\b"),
    "dies": ("XCDs", r"\bdies\b(?! (in|with|there|and|before|of|here|where|,))"),
    "abroad": ("distributed shared memory access", r"\babroad\b"),
    "grid in front": ("primary grid", r"\bgrids? in front\b"),
    "behind each other": ("contiguous grouped GEMM", r"\bbehind (each other|one another)\b|\bone behind the other\b"),
    "fast sums": ("fast accumulation", r"\b(fast|exact) sums?\b"),
    "frames": ("array adapters", r"\bframes\.py\b"),
    "crowd": ("set of readers", r"\b[Cc]rowds?\b"),
    "agent": ("async engine", r"\bcopy agent\b|\basynchronous agent\b|\bagents?\b"),
    "sleepers": ("wait queue", r"\b[Ss]leepers?\b"),
    "knowledge": ("async vector clocks", r"\b[Kk]nowledge\b"),
    "granule": ("shadow cell", r"\b[Gg]ranules?\b"),
    "deletions": ("mutation testing", r"\b[Dd]eletions?\b"),
    "weakenings": ("mutation testing", r"\b[Ww]eakenings?\b"),
    "somebody must miss": ("the mutant must be killed", r"\b(somebody|someone) must miss\b|\bmissed by\b"),
    "in each other's way": ("conflict", r"\bin (each other's|the|its|their) way\b"),
    "meet in memory": ("race", r"\bmeet in memory\b"),
    "part ways": ("divergent threads", r"\bpart(ed|s|ing)? ways\b|\bhave parted\b"),
    "somebody": ("the threads, the caller, ...: name the subject", r"\b([Ss]omebody|[Ww]hoever|[Nn]obody)\b"),
}

# word → files (or folders) where it means something else, and what.
ALLOWED: dict[str, dict[str, str]] = {
    "agent": dict.fromkeys(
        (
            "backends/amd/emit/atomic.py",
            "backends/amd/emit/warp.py",
            "docs/amd.md",
            "tests/sim/amdgcn/test_hazards.py",
            "tests/sim/amdgcn/test_instructions.py",
        ),
        "LLVM's synchronisation scope of a device",
    ),
    "hazards": {"docs/gfx_simulator.md": "wait states: the hazards of the ISA guides"},
    "homes": {"minitile/driver/cache.py": "the user's home folder"},
}

# Where former names stand so that users may still give them.
FORMER = ("minitile/transforms/manager.py",)


def files() -> list[Path]:
    named = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    paths = [ROOT / name for name in named.splitlines()] or [p for f in FOLDERS for p in (ROOT / f).rglob("*")]
    return [p for p in paths if p.suffix in TEXTS and p.is_file() and not p.is_symlink() and p != Path(__file__)]


TEXT = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files()}


def hits(word: str) -> dict[str, list[str]]:
    """The lines of each file with a word, but for those where it may stand."""
    _, expression = RULES[word]
    allowed = (*ALLOWED.get(word, ()), *FORMER)
    found = {}
    for name, text in TEXT.items():
        if name.startswith(("benchmarks/results", *allowed)):
            continue
        if (
            re.search(expression, text, re.MULTILINE) is None
        ):  # most have none: a search for all lines together is quick
            continue
        lines = [line.strip() for line in text.splitlines() if re.search(expression, line)]
        if lines:
            found[name] = lines
    return found


@pytest.mark.parametrize("word", RULES)
def test_the_standard_name_is_used(word: str) -> None:
    standard, _ = RULES[word]
    assert hits(word) == {}, f"{word!r}: the field says {standard!r}"


def test_each_exception_is_needed() -> None:
    for word, places in ALLOWED.items():
        for place in places:
            inside = [text for name, text in TEXT.items() if name.startswith(place)]
            assert any(re.search(RULES[word][1], text) for text in inside), f"{word}: {place} needs no exception"


def test_the_rules_find_what_they_are_for() -> None:
    for word, sample in {
        "blocks that stay": "blocks that stay, one a multiprocessor",
        "count_tokens": "from minitile.passes.count_tokens import x",
        "baton": "hands on the baton",
        "crowd": "a crowd of readers",
        "somebody": "until somebody waits",
    }.items():
        assert re.search(RULES[word][1], sample), word


# Folders that have more: why.
LARGE_FOLDERS = {"minitile/tilelang": (26, "a module for each of TileLang's that its programs import")}


def test_no_folder_is_large() -> None:
    for top in ("minitile", "backends", "runtime"):
        for folder in {path.parent for path in (ROOT / top).rglob("*.py") if "__pycache__" not in path.parts}:
            if not any(part.is_symlink() for part in (folder, *folder.parents)):
                most, _ = LARGE_FOLDERS.get(folder.relative_to(ROOT).as_posix(), (22, ""))
                assert len(list(folder.glob("*.py"))) <= most, folder
