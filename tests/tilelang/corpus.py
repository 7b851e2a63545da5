"""TileLang's own examples through `minitile.tilelang`: which of their files compile every kernel, and what the others
lack.

    python tests/tilelang/corpus.py DIRECTORY [--target sm_90a] [--only TEXT] [--out corpus.json]

The exit status is 0 where exactly the files of `LACKS` are not compiled.
DIRECTORY is a checkout of github.com/tile-ai/tilelang at `COMMIT` (`--fetch` clones it there). Files are run as they
are, each in a process of its own, in compile-only mode: torch is a stand-in whose tensors have no content. Where a file
does not come to all of its kernels by itself, the tests beside it that import it are run as well.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

COMMIT = "a35008a42531c62b976ae4cec3855d4383db0f3c"
REPOSITORY = "https://github.com/tile-ai/tilelang"
SECONDS = 120  # of one file


# What is run besides, among the names of a file that does not come to all of its kernels by itself.
CALLS: dict[str, list[str]] = {
    "deepseek_v32/inference/kernel.py": [
        "act_quant(torch.empty(4, 256, dtype=torch.bfloat16))",
        "E = lambda *n: torch.empty(*n, dtype=torch.float8_e4m3fn)",
        "fp8_gemm(E(32, 256), torch.empty(32, 2), E(128, 256), torch.empty(1, 2))",
        "fp8_index(E(1, 4, 32, 128), torch.empty(1, 4, 32), E(1, 512, 128), torch.empty(1, 512))",
    ],
    "linear_attention/example_linear_attn_fwd.py": ["tl_fused_chunk_fwd_kernel(1, 512, 16, 128, 128)"],
    "minference/example_vertical_slash_sparse_attn.py": ["_tl_vs_sparse_flashattn(1, 1, 16384, 64, 1000, 200)"],
    "deepseek_nsa/example_tilelang_nsa_bwd.py": [
        "Z = lambda *n, d=torch.float16: torch.empty(*n, dtype=d)",
        "x, y, s = Z(1, 64, 16, 64), Z(1, 64, 1, 64), Z(1, 64, 16, d=torch.float32)",
        "tilelang_kernel_bwd_dkv(x, y, y, s, s, x, Z(1, 1, 64, 1, 64), Z(1, 1, 64, 1, 64), "
        "Z(1, 64, 1, 2, d=torch.int32), 64, True, groups=16, block_size=32, selected_blocks=1)",
    ],
    "deepseek_nsa/example_tilelang_nsa_fwd_varlen.py": [
        "Z = lambda *n, d=torch.float16: torch.empty(*n, dtype=d)",
        "i = lambda *n: Z(*n, d=torch.int32)",
        "native_sparse_attention_varlen(Z(64, 32, 64), Z(64, 1, 64), Z(64, 1, 64), Z(64, 32, 64), "
        "i(64, 1, 8), i(64, 1), i(3), i(64, 2), 2, 64, True, block_size=32, groups=32, selected_blocks=8)",
    ],
    "flash_attention/example_gqa_bwd_tma_reduce.py": ["main(use_atomic=False)", "main(use_atomic=True)"],
    "flash_attention/example_gqa_bwd_tma_reduce_varlen.py": ["main(use_atomic=False)", "main(use_atomic=True)"],
    "dequantize_gemm/example_dequant_gemm_fp4_hopper.py": ["test_convert(256, 256, 64, 64, T.float16)"],
    "dequantize_gemm/example_dequant_gemm_w4a8.py": ["_convert_test(256, 256, 64, 64, T.int8)"],
    "norm/rms_norm.py": ["rms_norm_splitk.compile(M=1024, N=8192, blk_m=1, blk_k=512)"],
}


TENSOR_MEMORY = "tensor memory and tcgen05 instructions, of sm_100a"
FOREIGN = "T.import_source, T.call_extern: foreign CUDA code"
EMITTER = "TVM's emitters of single instructions"
# Of the files that do not compile every kernel, what each lacks.
LACKS: dict[str, str] = {
    "autodd/tilelang_buggy.py": "nothing: its T.gemm is wrong on purpose, and refused",
    "autodd/tilelang_minimized_expected.py": "nothing: the same; its T.Kernel() of no size is refused first",
    "aws/flash_attention.py": TENSOR_MEMORY,
    "aws/gemm.py": TENSOR_MEMORY,
    "bitnet-1.58b/kernel_benchmark/tilelang_bitnet_158_int8xint2_decode.py": FOREIGN,
    "bitnet-1.58b/kernel_benchmark/tilelang_bitnet_158_int8xint2_prefill.py": EMITTER,
    "blockscaled_gemm_sm100/gemm_mxfp8_blockscaled_1d1d.py": TENSOR_MEMORY,
    "deepseek_mhc/example_mhc_pre.py": "T.Parallel under a condition that differs between threads",
    "deepseek_v32/sparse_mla_bwd.py": "shared memory: 60 kB too much",
    "deepseek_v4/act_quant.py": "tensors of float4_e2m1fn",
    "dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py": FOREIGN,
    "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_cdna4.py": FOREIGN,
    "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py": FOREIGN,
    "dequantize_gemm/example_dequant_gemv_fp16xint4.py": FOREIGN,
    "dsa_sparse_finetune/sparse_mla_bwd.py": "T.view of a shared buffer with elements of another size",
    "flash_attention_sm100/gqa_bwd_bshd.py": TENSOR_MEMORY,
    "flash_attention_sm100/gqa_fwd_bshd.py": TENSOR_MEMORY,
    "flash_attention_sm100/mha_bwd_bshd.py": TENSOR_MEMORY,
    "flash_attention_sm100/mha_fwd_bshd.py": TENSOR_MEMORY,
    "gemm/example_gemm_intrinsics.py": EMITTER,
    "gemm_fp8/example_tilelang_gemm_amd_fp8_preshuffle.py": EMITTER,
    "gemm_fp8/example_tilelang_gemm_fp8_sm100.py": TENSOR_MEMORY,
    "gemm_sm120/sm120_nvfp4_blockscaled_gemm.py": "block-scaled products of sm_120",
    "gemm_sp/example_gemm_sp.py": "T.gemm_sp: sparse products",
    "gemm_sp/sparse_utils.py": "T.gemm_sp: layouts of its metadata",
    "gemm_tcgen05/gemm_tcgen5mma.py": TENSOR_MEMORY,
    "gemm_tcgen05/gemm_tcgen5mma_ws.py": TENSOR_MEMORY,
    "gemm_tcgen05/gemm_tcgen5mma_ws_persistent.py": TENSOR_MEMORY,
    "grouped_gemm/example_grouped_gemm_fwd_ptr.py": "T.ptr: tensors of addresses",
    "rand/rand_uint.py": "blocks of fewer than 32 threads",
}


@dataclass
class Outcome:
    """What became of a file: kernels that compiled, errors of those that did not, functions marked as kernels that
    nothing called, and the error that ended the script ("" if none)."""

    file: str
    compiled: int = 0
    errors: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    stopped: str = ""
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Every kernel of the file was compiled."""
        return self.compiled > 0 and not self.errors and not self.unreached

    def state(self) -> str:
        if self.whole:
            return "compiles"
        if self.errors:
            return "refused"
        return "partly" if self.compiled else "no kernel"

    def why(self) -> str:
        first = [e.splitlines()[0] for e in self.errors]
        if first:
            return Counter(first).most_common(1)[0][0]
        return self.stopped or (f"nothing calls {', '.join(self.unreached)}" if self.unreached else "")


def kernel_files(root: Path) -> list[Path]:
    """The files of examples/ that contain a T.Kernel, of whatever name tilelang.language was imported as."""
    return [p for p in sorted((root / "examples").rglob("*.py")) if _has_kernel(p)]


def _has_kernel(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError:
        return False
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.name == "tilelang.language"}
        elif isinstance(node, ast.ImportFrom) and node.module == "tilelang":
            names |= {a.asname or a.name for a in node.names if a.name == "language"}
    return any(
        isinstance(n, ast.Attribute) and n.attr == "Kernel" and isinstance(n.value, ast.Name) and n.value.id in names
        for n in ast.walk(tree)
    )


def tests_of(path: Path) -> list[Path]:
    """The tests beside a file that name it."""
    return [p for p in sorted(path.parent.glob("test_*.py")) if p != path and path.stem in p.read_text()]


def compile_file(path: Path, root: Path, target: str) -> Outcome:
    """In a process of its own; without `assert`, which scripts have of data that is not there."""
    command = [sys.executable, "-O", __file__, str(root), "--one", str(path), "--target", target]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return Outcome(str(path.relative_to(root)), stopped=f"more than {SECONDS} s")
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        return Outcome(**json.loads(last[0]))
    except ValueError:
        return Outcome(str(path.relative_to(root)), stopped=(done.stderr.strip().splitlines() or ["?"])[-1])


def one(path: Path, root: Path, target: str) -> Outcome:
    """In this process."""
    from minitile.tilelang.run import compile_script

    os.chdir(path.parent)
    calls = CALLS.get(str(path.relative_to(root / "examples")), [])
    mode, stopped = compile_script(str(path), [], target, [str(p) for p in tests_of(path)], calls)
    mine = [r for r in mode.records if r.file == str(path)]
    errors = [r.error for r in mine if r.error]
    unreached = [name for place, name in mode.made.items() if place not in mode.reached and place[0] == str(path)]
    spent = sum(r.seconds for r in mode.records)
    return Outcome(str(path.relative_to(root)), len(mine) - len(errors), errors, unreached, stopped, round(spent, 1))


def fetch(root: Path) -> None:
    """Clones the repository at the commit."""
    if not (root / "examples").is_dir():
        subprocess.run(["git", "clone", "--filter=blob:none", REPOSITORY, str(root)], check=True)
        subprocess.run(["git", "-C", str(root), "checkout", "--quiet", COMMIT], check=True)


def report(outcomes: list[Outcome]) -> Iterator[str]:
    """The table: a row a file, then what is lacking, by files."""
    for o in outcomes:
        yield f"{o.state():10} {o.compiled:3} {o.seconds:6.1f} s  {o.file}  {'' if o.whole else o.why()[:150]}"
    yield ""
    for state, count in Counter(o.state() for o in outcomes).most_common():
        yield f"{count:4} {state}"
    yield ""
    for why, count in Counter(o.why()[:110] for o in outcomes if not o.whole).most_common():
        yield f"{count:4} {why}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path, help="an earlier --out: run only the files that did not compile in it")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    root = args.directory.resolve()
    if args.one:
        print(json.dumps(asdict(one(args.one, root, args.target))))
        return 0
    if args.fetch:
        fetch(root)
    outcomes = []
    known = {o["file"]: Outcome(**o) for o in json.loads(args.again.read_text())} if args.again else {}
    for path in kernel_files(root):
        before = known.get(str(path.relative_to(root)))
        if args.only in str(path):
            outcomes.append(before if before and before.whole else compile_file(path, root, args.target))
            print(outcomes[-1].state(), outcomes[-1].file, outcomes[-1].why()[:200], flush=True, file=sys.stderr)
    if args.out:
        args.out.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    print("\n".join(report(outcomes)))
    surprises = [o for o in outcomes if o.whole == (o.file.removeprefix("examples/") in LACKS)]
    for o in surprises:
        print(f"{o.file} {'compiles, and is said to lack something' if o.whole else 'is not said to lack anything'}")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
