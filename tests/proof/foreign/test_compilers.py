"""What other compilers make of small kernels: Triton 3.9.0 of texts/triton_kernels.py, and NVRTC 13.5 of texts/*.cu
(`--gpu-architecture=compute_80` or `compute_90a`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minitile.proof import Launch, answer, check

FOLDER = Path(__file__).parent / "texts"
THREADS = {"nvrtc_gemm_sm": 256, "nvrtc_softmax": 256}  # all others 128
SHARED = {"triton_gemm_pipelined": 24576, "triton_gemm": 8192, "triton_softmax": 16}
# Not proved, with the reason.
EXPECTED = {
    # The fence stands behind the barrier, in threads that have not stored: docs/memory.md asks for it before.
    "triton_gemm_pipelined_sm_90": "no proxy fence since line",
}


def by_prefix(table: dict[str, int], name: str, other: int) -> int:
    return next((value for prefix, value in table.items() if name.startswith(prefix)), other)


def read(name: str) -> tuple[str, Launch]:
    aligned = 1024 if name.startswith("triton") else 0  # products' swizzle needs more than the text declares
    launch = Launch({}, by_prefix(THREADS, name, 128), by_prefix(SHARED, name, 0), aligned=aligned)
    return (FOLDER / f"{name}.ptx").read_text(), launch


@pytest.mark.parametrize("name", sorted(each.stem for each in FOLDER.glob("*.ptx")))
def test_other_compilers(name):
    text, launch = read(name)
    found = answer(text, launch)
    assert EXPECTED.get(name, "") in found.reason
    assert bool(found) == (name not in EXPECTED)
    if found:
        assert check(found.certificate, text, launch) == found.states


# Barriers, by their number in the text, without which it is proved as well.
SPARE = {
    "nvrtc_softmax_sm_90a": {3},  # the last one: nothing comes behind it
    "triton_gemm_pipelined_sm_80": {1},  # of three slots one lies between that which is read and that which is filled
    "triton_gemm_sm_90": {0, 2},  # behind a wgmma.wait_group: the four warps are one warpgroup
}


@pytest.mark.few_cases
@pytest.mark.parametrize("name", sorted(each.stem for each in FOLDER.glob("*.ptx") if each.stem not in EXPECTED))
def test_each_barrier_counts(name):
    text, launch = read(name)
    parts = text.split("bar.sync")
    for place in range(len(parts) - 1):
        without = "bar.sync".join(parts[: place + 1]) + "bar.warp.sync -1; //" + "bar.sync".join(parts[place + 1 :])
        assert bool(answer(without, launch, seconds=20)) == (place in SPARE.get(name, set())), place
