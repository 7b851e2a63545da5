"""Hand-written PTX beside the compiler's: texts in a folder with their launches described in its reference.json.

A text's name says what it is for: gemm_*_nt, gemm_*_nn, attention_* and attention_*_causal (head dimension 128). Its
launch is made here as a LaunchInfo, with tensor maps of TMA; the driver's own JIT assembles it, since that honours
setmaxnreg as ptxas does. Parameters, in order:

- GEMM: maps of A, B and C; ceil(M / BM), ceil(N / BN), ceil(K / 64); the tile rows of a swizzle group.
- attention: maps of Q, K, V and O as (B·H, 2, S, 64), the head dimension in two halves; ceil(S / 128) twice; the heads
  of a swizzle group; the tiles; S; log2(e) / √128; a counter of tiles that is zero before each launch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contest import Entry, Missing, each

from minitile.runtime.launch_info import Expr, LaunchInfo, Param, ScalarArg, TensorArg, TensorMapParam

Texts = Mapping[str, Mapping[str, Any]]
NAME = "reference"


def read(folder: str) -> dict[str, dict[str, Any]]:
    """What FOLDER/reference.json says of each text, with the text itself under "ptx"."""
    path = Path(folder)
    described = json.loads((path / "reference.json").read_text(encoding="utf-8"))
    return {name: {**it, "ptx": (path / it["file"]).read_text(encoding="utf-8")} for name, it in described.items()}


def ceildiv(x: Expr, y: int) -> Expr:
    return ("ceildiv", x, y)


def map_of(tensor: str, dims: tuple[Expr, ...], strides: tuple[Expr, ...], box: tuple[int, ...]) -> TensorMapParam:
    """A map of bf16 elements with a 128-byte swizzle."""
    return TensorMapParam(f"{tensor}_map", tensor, "bf16", dims, strides, box, swizzle=128)


def launch_of(it: Mapping[str, Any], params: list[Any], args: list[Any], tiles: Expr, processors: int) -> LaunchInfo:
    return LaunchInfo(
        entry=it["entry"],
        args=tuple(args),
        params=tuple(params),
        grid=(("min", tiles, processors), 1, 1),
        block=tuple(it["block"]),
        dynamic_shared=it["dynamic_shared_bytes"],
    )


def gemm_launch(it: Mapping[str, Any], transposed: bool, group: int, processors: int = 132) -> LaunchInfo:
    """The launch on A (M, K), B (N, K) or (K, N), C (M, N)."""
    m, n, k = (("dim", name) for name in "MNK")
    rows, columns = it["cfg"]["BM"], it["cfg"]["BN"]
    b = map_of("B", (n, k), (k,), (columns, 64)) if transposed else map_of("B", (k, n), (n,), (64, 64))
    params = [
        map_of("A", (m, k), (k,), (rows, 64)),
        b,
        map_of("C", (m, n), (n,), (64, 64)),
        Param("tile_rows", "u32", ceildiv(m, rows)),
        Param("tile_columns", "u32", ceildiv(n, columns)),
        Param("steps", "u32", ceildiv(k, 64)),
        Param("group", "u32", group),
    ]
    shapes = {"A": ("M", "K"), "B": ("N", "K") if transposed else ("K", "N"), "C": ("M", "N")}
    args = [TensorArg(name, "bf16", shape) for name, shape in shapes.items()]
    return launch_of(it, params, args, ("mul", ceildiv(m, rows), ceildiv(n, columns)), processors)


def attention_launch(it: Mapping[str, Any], processors: int = 132) -> LaunchInfo:
    """The launch on Q, K, V, O (B, H, S, 128), a counter (1,) of i32 and the scale."""
    b, h, s = (("dim", name) for name in "BHS")
    heads, blocks = ("mul", b, h), ceildiv(s, 128)
    tiles = ("mul", blocks, heads)
    dims, strides = (heads, 2, s, 64), (("mul", s, 128), 64, 128)
    params = [
        *(map_of(name, dims, strides, (1, 2, 128, 64)) for name in "QKV"),
        map_of("O", dims, strides, (1, 1, 64, 64)),
        Param("q_blocks", "u32", blocks),
        Param("kv_blocks", "u32", blocks),
        Param("group", "u32", 16 if it["cfg"]["causal"] else 1),
        Param("tiles", "u32", tiles),
        Param("length", "u32", s),
        Param("scale", "f32", ("scalar", "scale")),
        Param("counter", "pointer", ("pointer", "counter")),
    ]
    args = [TensorArg(name, "bf16", ("B", "H", "S", 128)) for name in "QKVO"]
    args += [TensorArg("counter", "i32", (1,)), ScalarArg("scale", "f32")]
    return launch_of(it, params, args, tiles, processors)


def prepared(it: Mapping[str, Any], info: LaunchInfo, *arrays: Any) -> Callable[[], Any]:
    """The launch on these arrays; the driver assembles the text now."""
    from minitile.runtime.cuda import Launcher

    return Launcher(info, lambda _: it["ptx"].encode()).prepare(*arrays)


def processors_of(tensor: Any) -> int:
    import torch

    return torch.cuda.get_device_properties(tensor.device).multi_processor_count


def gemm(texts: Texts, transposed: bool, a: Any, b: Any, c: Any) -> Iterator[Entry]:
    """The GEMM texts of this form, each in swizzle groups of its own size and of 16."""
    form = "nt" if transposed else "nn"
    wanted = [
        (name, group)
        for name, it in texts.items()
        if name.startswith("gemm") and name.endswith(form)
        for group in sorted({it["G"], 16})
    ]

    def build(config: tuple[str, int]) -> Entry:
        name, group = config
        run = prepared(texts[name], gemm_launch(texts[name], transposed, group, processors_of(a)), a, b, c)

        def launch() -> Any:
            run()
            return c

        return Entry(NAME, f"{name}, groups of {group}", launch)

    return each(NAME, wanted, build)


def attention(texts: Texts, causal: bool, q: Any, k: Any, v: Any, o: Any) -> Iterator[Entry]:
    """The attention texts for causal or full attention."""
    import torch

    if q.shape[-1] != 128:
        raise Missing("its attention is for a head dimension of 128")
    wanted = [name for name, it in texts.items() if it["entry"] == "attn" and bool(it["cfg"]["causal"]) == causal]
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)

    def build(name: str) -> Entry:
        info = attention_launch(texts[name], processors_of(q))
        run = prepared(texts[name], info, q, k, v, o, counter, math.log2(math.e) / math.sqrt(128))

        def launch() -> Any:
            counter.zero_()
            run()
            return o

        return Entry(NAME, name, launch)

    return each(NAME, wanted, build)
