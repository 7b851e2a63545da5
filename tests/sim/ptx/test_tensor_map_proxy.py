"""Tensor maps that programs make: changed and used as grouped GEMMs do it, and the tensormap proxy's fences.

The first warp copies the parameter's map to shared memory, points it at another tensor, and copies it to global
memory; then a thread loads a box by it, and all threads write what came to the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report, TensorMap
from tests.sim.ptx.hopper import INIT, assembles, dump, frame, silent, simulate, wait

SCHEDULES = ["eager", "lazy", "random"]
# a0: the result, a1: the tensor to be loaded, a2: 128 bytes for the map
COPY = """    setp.lt.u32 q, tid, 32;
    @!q bra MADE;
    setp.lt.u32 r, tid, 8;
    mul.wide.u32 y0, tid, 16;
    add.u64 y1, y0, m0;
    cvt.u32.u64 x0, y0;
    add.u32 x1, x0, s;
    add.u32 x1, x1, 4096;
    @r ld.v4.u32 {v0, v1, v2, v3}, [y1];
    @r st.shared.v4.u32 [x1], {v0, v1, v2, v3};
    bar.warp.sync -1;
    add.u32 x2, s, 4096;
"""
CHANGE = "    @lead tensormap.replace.tile.global_address.shared::cta.b1024.b64 [x2], a1;\n"
MEET = "    bar.warp.sync -1;\n"
PUBLISH = (
    "    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [a2], [x2], 128;\n"
)
ACQUIRE = "    fence.proxy.tensormap::generic.acquire.gpu [a2], 128;\n"
LOAD = """    mov.u32 v4, 0;
    mov.u32 v5, 0;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
    @lead cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [a2, {v4, v5}], [bar];
"""
MADE = "MADE:\n"
# By hand: each of eight threads stores its 16 bytes of the map directly.
STORE = """    @r ld.shared.v4.u32 {v0, v1, v2, v3}, [x1];
    add.u64 y2, y0, a2;
    @r st.global.v4.u32 [y2], {v0, v1, v2, v3};
"""
RELEASE = "    fence.proxy.tensormap::generic.release.gpu;\n"

RIGHT = COPY + CHANGE + MEET + PUBLISH + ACQUIRE + LOAD + MADE
BY_STORES = COPY + CHANGE + MEET + STORE + RELEASE + MEET + ACQUIRE + LOAD + MADE
PAIRS = {
    # name: (wrong, right, kind)
    "no acquire": (RIGHT.replace(ACQUIRE, ""), RIGHT, "missing_proxy_fence"),
    "another map is acquired": (
        RIGHT.replace("[a2], 128;\n" + LOAD, "[a0], 128;\n" + LOAD),
        RIGHT,
        "missing_proxy_fence",
    ),
    "acquired too early": (
        RIGHT.replace(ACQUIRE, "").replace(CHANGE, ACQUIRE + CHANGE),
        RIGHT,
        "missing_proxy_fence",
    ),
    "another thread acquires": (
        RIGHT.replace(ACQUIRE, "    @!lead" + ACQUIRE[3:]),
        RIGHT,
        "missing_proxy_fence",
    ),
    "no release": (BY_STORES.replace(RELEASE, ""), BY_STORES, "missing_proxy_fence"),
    "only the user releases": (
        BY_STORES.replace(RELEASE, "    @lead" + RELEASE[3:]),
        BY_STORES,
        "missing_proxy_fence",
    ),
    "released behind the barrier": (
        BY_STORES.replace(RELEASE + MEET, MEET + RELEASE),
        BY_STORES,
        "missing_proxy_fence",
    ),
    "no order behind the release": (BY_STORES.replace(RELEASE + MEET, RELEASE), BY_STORES, "missing_barrier"),
    "the copy does not see the change": (RIGHT.replace(CHANGE + MEET, CHANGE), RIGHT, "missing_barrier"),
}  # fmt: skip


def run(body: str, **options: Any) -> tuple[Report, Any, Any]:
    text = frame(INIT + body + wait() + dump(2048), maps=1, pointers=3)
    assembles(text)
    first, second = (np.arange(start, start + 1024, dtype=np.uint32).reshape(32, 32) for start in (0, 5000))
    out, made = np.zeros(512, np.uint32), np.zeros(128, np.uint8)
    return simulate(text, [TensorMap(first, (16, 32)), out, second, made], opaque=(3,), **options), out, second


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("body", [RIGHT, BY_STORES])
def test_the_changed_map_is_used(body: str, schedule: str) -> None:
    report, out, second = run(body, schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(out, second[:16].ravel())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, schedule: str) -> None:
    wrong, right, kind = PAIRS[name]
    assert wrong != right
    silent(run(right, schedule=schedule)[0])
    report, _, _ = run(wrong, schedule=schedule, gpu=False)
    assert kind in {finding.kind for finding in report.findings}, report.findings
    if kind == "missing_proxy_fence":
        assert {finding.kind for finding in report.findings} == {kind}
        assert "fence.proxy.tensormap::generic" in report.findings[0].cure


FIELDS = """    setp.lt.u32 q, tid, 32;
    @!q bra MADE;
    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    mov.u32 v0, 0;
    st.shared.u32 [x1+4096], v0;
    bar.warp.sync -1;
    add.u32 x2, s, 4096;
    mov.u64 y3, 128;
    @!lead bra PUBLISH;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [x2], a1;
    tensormap.replace.tile.rank.shared::cta.b1024.b32 [x2], 1;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [x2], 0, 32;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [x2], 1, 16;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [x2], 0, 32;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [x2], 1, 32;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [x2], 0, y3;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [x2], 0, 1;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [x2], 1, 1;
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [x2], 2;
    tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [x2], 0;
    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [x2], {swizzle};
    tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [x2], 0;
PUBLISH:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_map_from_nothing(schedule: str) -> None:
    """As Triton makes them: zeroed, then every field replaced."""
    body = FIELDS.format(swizzle=0) + MEET + PUBLISH + ACQUIRE + LOAD + MADE
    report, out, second = run(body, schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(out, second[:16].ravel())


def test_maps_that_are_refused() -> None:
    body = FIELDS.format(swizzle=1) + MEET + PUBLISH + ACQUIRE + LOAD + MADE
    report, _, _ = run(body, gpu=False)
    assert "more than the swizzle's 32" in report.findings[0].message
    body = RIGHT.replace("b64 [x2], a1", "b64 [x2], 4096")
    report, _, _ = run(body, gpu=False)
    assert report.findings[0].kind == "out_of_bounds"
    report, _, _ = run(LOAD, gpu=False)
    assert "there is no tensor map" in report.findings[0].message


def test_changed_again_while_it_may_be_used() -> None:
    """Another warp overwrites the map in global memory, without any order behind the copy that uses it."""
    second = "    shr.u32 x3, tid, 5;\n    setp.eq.u32 q, x3, 1;\n    add.u32 x2, s, 4096;\n    @!q bra OVER;\n"
    report, _, _ = run(RIGHT + second + PUBLISH + "OVER:\n", gpu=False)
    assert "missing_barrier" in {finding.kind for finding in report.findings}, report.findings
