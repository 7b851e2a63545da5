"""All operations. `arith`, `control`, `fences`, `inline` and `warp` are legal in both stages, `tile`, `scan`, `random`,
`runs`, `views`, `roles` and `explicit` in the tile stage, `thread`, `hopper` (what sm_90a has on top), `blackwell`
(sm_100a) and `cdna` (AMD) in the thread stage; those of `cluster` are of either."""

from minitile.ir.ops import (
    arith,
    blackwell,
    cdna,
    cluster,
    control,
    explicit,
    fences,
    hopper,
    inline,
    random,
    roles,
    runs,
    scan,
    thread,
    tile,
    views,
    warp,
)

__all__ = [
    "arith",
    "blackwell",
    "cdna",
    "cluster",
    "control",
    "explicit",
    "fences",
    "hopper",
    "inline",
    "random",
    "roles",
    "runs",
    "scan",
    "thread",
    "tile",
    "views",
    "warp",
]
