"""Programs for the tests of cluster launch control, in named parts: CTAs that add 1 to their element of p0 (each CTA of
a cluster its own) for as long as try_cancel gives them clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitile.runtime.sim import Report, run_ptx
from tests.sim.ptx.blackwell import for_blackwell
from tests.sim.ptx.hopper import frame

MEET = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;"


def parts(cluster: int = 1) -> dict[str, str]:
    """The program of clusters of so many CTAs along x. Registers x1, x2: the first CTA of what is worked on."""
    everywhere = ".multicast::cluster::all" if cluster > 1 else ""
    leads = "    setp.eq.u32 q, rank, 0;\n    and.pred q, q, lead;\n" if cluster > 1 else "    mov.pred q, lead;\n"
    return {
        "init": "    @lead mbarrier.init.shared::cta.b64 [bar], 1;",
        "init fence": "    @lead fence.mbarrier_init.release.cluster;",
        "start": "    mov.u32 x1, %ctaid.x;\n    sub.u32 x1, x1, rank;\n    mov.u32 x2, %ctaid.y;\n    mov.u32 x3, 0;",
        "meet": MEET,
        "loop": "LOOP:",
        "expect": "    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;",
        "acquire": "    fence.proxy.async;" if cluster > 1 else "",
        "ask": f"{leads}    @q clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        f"{everywhere}.b128 [response], [bar];",
        "work": "    mov.u32 x4, %nctaid.x;\n    mul.lo.u32 x5, x2, x4;\n    add.u32 x5, x5, x1;\n"
        "    add.u32 x5, x5, rank;\n    mul.wide.u32 y0, x5, 4;\n    add.u64 y0, y0, a0;\n"
        "    @lead red.global.add.u32 [y0], 1;",
        "wait": "W:\n    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], x3;\n    @!p bra W;",
        "read": "    ld.shared.b128 answer, [response];",
        "asked": "    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n    @!p bra DONE;",
        "first": "    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x1, x2, _, _}, answer;",
        "release": "    fence.proxy.async.shared::cta;",
        "turn": MEET,
        "again": "    xor.b32 x3, x3, 1;\n    bra LOOP;",
        "done": "DONE:",
    }


def text_of(program: dict[str, str]) -> str:
    """The PTX of a program's parts."""
    names = ".shared .align 16 .b8 response[16];\n    .reg .b128 answer;"
    return for_blackwell(frame("\n".join(program.values()), pointers=1, registers=names))


def simulate(text: str, counts: np.ndarray[Any, Any], cluster: int = 1, **options: Any) -> Report:
    """Run a grid of the shape of `counts`; findings are in the report."""
    height, width = counts.shape
    return run_ptx(text, "k", (width, height), (64,), [counts], cluster=(cluster, 1, 1), dynamic_shared=1024, **options)
