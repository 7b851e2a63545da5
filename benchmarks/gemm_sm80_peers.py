"""C = A · Bᵀ in bf16 by minitile, Triton, TileLang and cuBLAS, all but cuBLAS on the mma.sync path of sm_80.

How each is held to that path on a newer GPU:

- minitile: `compile(..., target="sm_80")`; nvJitLink assembles the PTX for the GPU's own architecture.
- Triton: `triton.compile` for `GPUTarget("cuda", 80, 32)`, the pipeline it uses on an A100. Its PTX is assembled and
  launched as minitile's is.
- TileLang: the target `{"kind": "cuda", "arch": "sm_80", "code": [the GPU's]}` lowers for sm_80 and makes nvcc assemble
  that for the GPU; launched by TileLang itself.
- cuBLAS cannot be held to a path: it takes the GPU's fastest (wgmma on Hopper).

Every entry's facts say what it became: registers and local memory (which is where spills go) of the code linked for the
GPU, and how many mma.sync and wgmma instructions stand in its PTX or CUDA source, so that the claim can be checked.
Nothing here needs a GPU before an entry is launched.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from compilers import compile_ahead, example, stages
from contest import Entry, Missing, each
from gemm_peers import Gemm, Operands, Tiles

from minitile.backends.nvidia.assemble import assemble

TILES = (
    Tiles(128, 128, 32, 3, 128),
    Tiles(128, 128, 32, 4, 128),
    Tiles(128, 128, 64, 3, 128),
    Tiles(128, 128, 32, 4, 256),
    Tiles(128, 128, 64, 3, 256),
    Tiles(128, 256, 32, 3, 256),
    Tiles(128, 256, 32, 4, 256),
    Tiles(128, 256, 64, 3, 256),
    Tiles(256, 128, 32, 3, 256),
    Tiles(256, 128, 32, 4, 256),
    Tiles(256, 128, 64, 3, 256),
)


def facts(registers: int, local: int, text: str) -> dict[str, Any]:
    """What the linked code costs (-1: not known) and which matrix instructions its text has."""
    costs = {name: count for name, count in (("registers", registers), ("local bytes", local)) if count >= 0}
    return costs | {"mma.sync": len(re.findall(r"\bmma[._]sync", text)), "wgmma": len(re.findall(r"\bwgmma", text))}


def launching(run: Callable[[Any, Any, Any], Any], operands: Operands | None) -> Callable[[], Any]:
    """`run(a, b, c)` as an entry's launch."""

    def launch() -> Any:
        run(operands.a, operands.b, operands.c)
        return operands.c

    return launch


def cublas(problem: Gemm, operands: Operands | None, arch: str) -> Iterator[Entry]:
    """torch.mm into C."""
    import torch

    yield Entry("cublas", "its own choice", launching(lambda a, b, c: torch.mm(a, b.t(), out=c), operands))


def minitile(problem: Gemm, operands: Operands | None, arch: str) -> Iterator[Entry]:
    """examples/gemm.py."""
    import minitile as mt

    kernel = example("gemm").gemm_nt_bf16()
    shapes = ((problem.m, problem.k), (problem.n, problem.k), (problem.m, problem.n))

    def build(tiles: Tiles) -> Entry:
        compiled = kernel.compile(
            *(mt.spec(shape, "bfloat16") for shape in shapes),
            target="sm_80",
            block_M=tiles.m,
            block_N=tiles.n,
            block_K=tiles.k,
            num_stages=tiles.stages,
            threads=tiles.threads,
        )
        ptx = compiled.asm["ptx"]
        linked = assemble(ptx, arch)
        known = facts(linked.registers, linked.stack, ptx)
        seconds = sum(compiled.timings.values()) * 1e-3 + linked.seconds
        spent = stages(compiled.timings, linked.assembler, linked.seconds)
        return Entry("minitile", str(tiles), launching(compiled, operands), known, "", seconds, spent)

    return each("minitile", TILES, build)


@cache
def triton_kernel() -> Any:
    """The matmul of Triton's tutorial (pointers, blocks in groups of 8 rows for the L2), without the masks that these
    sizes do not need."""
    global tl  # Triton looks names up in the module
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        raise Missing(f"not installed ({error})") from None

    @triton.jit
    def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        block = tl.program_id(0)
        rows = tl.cdiv(M, BM)
        group = GROUP * tl.cdiv(N, BN)
        first = block // group * GROUP
        height = min(rows - first, GROUP)
        m = (first + block % group % height) * BM + tl.arange(0, BM)
        n = block % group // height * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        at_a = a + m[:, None] * K + k[None, :]
        at_b = b + n[None, :] * K + k[:, None]
        total = tl.zeros((BM, BN), tl.float32)
        for _ in range(tl.cdiv(K, BK)):
            total = tl.dot(tl.load(at_a), tl.load(at_b), total)
            at_a += BK
            at_b += BK
        tl.store(c + m[:, None] * N + n[None, :], total.to(tl.bfloat16))

    return matmul


def triton(problem: Gemm, operands: Operands | None, arch: str) -> Iterator[Entry]:
    """Compiled for an A100, linked for the GPU."""
    matmul = triton_kernel()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = dict.fromkeys("abc", "*bf16") | dict.fromkeys("MNK", "i32")
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(6)}

    def build(tiles: Tiles) -> Entry:
        constants = {"BM": tiles.m, "BN": tiles.n, "BK": tiles.k, "GROUP": 8}
        source = ASTSource(matmul, signature | dict.fromkeys(constants, "constexpr"), constants, divisible)
        # Triton counts the multiplication as a stage of its own: n + 1 make n versions of the shared tiles.
        options = {"num_warps": tiles.threads // 32, "num_stages": tiles.stages + 1}
        start = time.perf_counter()
        kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
        ptx, name, shared = kernel.asm["ptx"], kernel.metadata.name, kernel.metadata.shared
        linked = assemble(ptx, arch)
        seconds = time.perf_counter() - start
        # Pointers to memory that is not used here.
        scratch = (0,) * (len(re.findall(rf"\.param \.u64 .*{name}_param_", ptx)) - 3)
        grid = -(-problem.m // tiles.m) * -(-problem.n // tiles.n)
        launch = Launch(linked.cubin, name, grid, tiles.threads, shared)
        sizes = tuple(map(Int32, (problem.m, problem.n, problem.k)))

        def run(a: Any, b: Any, c: Any) -> None:
            launch(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes, *scratch)

        known = facts(linked.registers, linked.stack, ptx)
        return Entry("triton", str(tiles), launching(run, operands), known, "", seconds, f"with {linked.assembler}")

    return each("triton", TILES, build)


def tilelang(problem: Gemm, operands: Operands | None, arch: str) -> Iterator[Entry]:
    """Lowered for sm_80, assembled for the GPU."""
    try:
        from tvm.target import Target
    except ImportError:
        Target = dict  # compile_ahead says what is missing
    target = Target({"kind": "cuda", "arch": "sm_80", "code": [arch]})
    wanted = [(problem, tiles) for tiles in TILES]
    kernels: dict[Any, Any] = {}
    for backend in ("cython", "tvm_ffi"):  # the first makes a library whose registers can be read; either will do
        if not any(kernel for kernel, _, _ in kernels.values()):
            kernels = compile_ahead(wanted, program, target=target, execution_backend=backend)

    def build(tiles: Tiles) -> Entry:
        kernel, seconds, reason = kernels[problem, tiles]
        if kernel is None:
            return Entry("tilelang", str(tiles), None, failure=reason)
        registers, local = resource_usage(getattr(kernel.adapter, "libpath", None))
        known = facts(registers, local, kernel.get_kernel_source())
        return Entry("tilelang", str(tiles), launching(kernel, operands), known, "", seconds)

    return each("tilelang", TILES, build)


def program(problem: Gemm, tiles: Tiles) -> Any:
    """The matmul of TileLang's examples, with the result straight from registers."""
    global T  # TileLang looks names up in the module
    import tilelang.language as T

    M, N, K = problem.m, problem.n, problem.k
    BM, BN, BK = tiles.m, tiles.n, tiles.k

    @T.prim_func
    def matmul(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=tiles.threads) as (bx, by):
            A_shared = T.alloc_shared((BM, BK), "bfloat16")
            B_shared = T.alloc_shared((BN, BK), "bfloat16")
            C_local = T.alloc_fragment((BM, BN), "float32")
            T.use_swizzle(10)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=tiles.stages):
                T.copy(A[by * BM, k * BK], A_shared)
                T.copy(B[bx * BN, k * BK], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * BM, bx * BN])

    return matmul


class Int32(int):
    """A 32-bit launch argument; a plain int is a pointer."""


class Launch:
    """A cubin's entry on the current stream of torch: Triton's kernels, which its own launcher would compile anew."""

    def __init__(self, cubin: bytes, entry: str, grid: int, threads: int, shared: int) -> None:
        self._code = cubin, entry, shared
        self._shape = (grid, 1, 1, threads, 1, 1, shared)
        self._function: Any = None

    def __call__(self, *args: int) -> None:
        import torch

        from minitile.runtime.cuda import driver, load_function

        if self._function is None:
            self._function, _ = load_function(*self._code)
        kinds = tuple(ctypes.c_int32 if isinstance(arg, Int32) else ctypes.c_void_p for arg in args)
        stream = torch.cuda.current_stream().cuda_stream
        (status,) = driver().cuLaunchKernel(self._function, *self._shape, stream, (args, kinds), 0)
        if int(status):
            raise RuntimeError(f"cuLaunchKernel: {status}")


def resource_usage(library: str | None) -> tuple[int, int]:
    """Registers and local memory of the kernel in a shared library, by cuobjdump where there is one."""
    tool = shutil.which("cuobjdump")
    if tool is None:
        with contextlib.suppress(ImportError):
            import triton

            tool = str(Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump")
    if tool is None or library is None:
        return -1, -1
    done = subprocess.run([tool, "--dump-resource-usage", library], capture_output=True, text=True, check=False)
    found = re.search(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)", done.stdout)
    return (int(found[1]), int(found[2]) + int(found[3])) if found else (-1, -1)


CONTENDERS: dict[str, Callable[[Gemm, Operands | None, str], Iterator[Entry]]] = {
    "minitile": minitile,
    "cublas": cublas,
    "triton": triton,
    "tilelang": tilelang,
}
