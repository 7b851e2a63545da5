"""C = A · Bᵀ in bf16 by minitile, Triton, TileLang and cuBLAS, all but cuBLAS on the mma.sync path of sm_80.

How each is held to that path on a newer GPU:

- minitile: `compile(..., target="sm_80")`; nvJitLink assembles the PTX for the GPU's own architecture.
- Triton: `triton.compile` for `GPUTarget("cuda", 80, 32)`, the pipeline it uses on an A100. Its PTX is assembled and
  launched as minitile's is.
- TileLang: the target `{"kind": "cuda", "arch": "sm_80", "code": [the GPU's]}` lowers for sm_80 and makes nvcc assemble
  that for the GPU; launched by TileLang itself.
- cuBLAS cannot be held to a path: it takes the GPU's fastest (wgmma on Hopper).

Every contender says what it became: registers and local memory (which is where spills go) of the code linked for the
GPU, and the count of mma.sync and wgmma instructions in its text, so that the claim can be checked. A contender that is
not installed raises Missing; tiles that one cannot compile are reported with the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitile.backends.nvidia.assemble import assemble

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


class Missing(Exception):
    """A contender that cannot take part here, and why."""


@dataclass(frozen=True)
class Tiles:
    """One way to cut the product: a block's tile, the stages of its pipeline (versions of the tiles in shared memory),
    its threads."""

    m: int
    n: int
    k: int
    stages: int
    threads: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}, {self.stages} stages, {self.threads} threads"


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


@dataclass
class Contender:
    """A compiled product. `run(a, b, c)` launches it on torch tensors on the current stream; None where `failure` says
    why there is none. Registers per thread, local memory in bytes per thread; -1: not known. `mma` counts the
    (mma.sync, wgmma) instructions in its PTX or CUDA source."""

    name: str
    tiles: str
    run: Callable[[Any, Any, Any], Any] | None
    registers: int = -1
    local: int = -1
    mma: tuple[int, int] = (-1, -1)
    compile_seconds: float = 0.0
    failure: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.tiles}"


def each_tiles(name: str, build: Callable[[Tiles], Contender]) -> Iterator[Contender]:
    """`build` for all TILES; the reason where it fails."""
    for tiles in TILES:
        start = time.perf_counter()
        try:
            contender = build(tiles)
        except Exception as error:  # whatever a compiler raises: the others go on
            yield Contender(name, str(tiles), None, failure=f"{type(error).__name__}: {error}".splitlines()[0][:200])
            continue
        contender.compile_seconds = time.perf_counter() - start
        yield contender


@dataclass(frozen=True)
class Size:
    """A is m × k, B is n × k, C is m × n; all multiples of every tile tried."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


def cublas(size: Size, arch: str) -> Iterator[Contender]:
    """torch.mm into C."""
    import torch

    yield Contender("cublas", "its own choice", lambda a, b, c: torch.mm(a, b.t(), out=c))


def minitile(size: Size, arch: str) -> Iterator[Contender]:
    """examples/gemm.py."""
    from gemm import gemm_nt_bf16

    import minitile as mt

    shapes = ((size.m, size.k), (size.n, size.k), (size.m, size.n))

    def build(tiles: Tiles) -> Contender:
        kernel = gemm_nt_bf16().compile(
            *(mt.spec(shape, "bfloat16") for shape in shapes),
            target="sm_80",
            block_M=tiles.m,
            block_N=tiles.n,
            block_K=tiles.k,
            num_stages=tiles.stages,
            threads=tiles.threads,
        )
        ptx = kernel.asm["ptx"]
        linked = assemble(ptx, arch)
        return Contender("minitile", str(tiles), kernel, linked.registers, linked.stack, count_mma(ptx))

    return each_tiles("minitile", build)


def triton(size: Size, arch: str) -> Iterator[Contender]:
    """The matmul of Triton's tutorial (pointers, blocks in groups of 8 rows for the L2), without the masks that these
    sizes do not need."""
    global tl  # Triton looks names up in the module
    try:
        import triton
        import triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
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

    signature = dict.fromkeys("abc", "*bf16") | dict.fromkeys("MNK", "i32")
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(6)}

    def build(tiles: Tiles) -> Contender:
        constants = {"BM": tiles.m, "BN": tiles.n, "BK": tiles.k, "GROUP": 8}
        source = ASTSource(matmul, signature | dict.fromkeys(constants, "constexpr"), constants, divisible)
        # Triton counts the multiplication as a stage of its own: n + 1 make n versions of the shared tiles.
        options = {"num_warps": tiles.threads // 32, "num_stages": tiles.stages + 1}
        kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
        ptx, name, shared = kernel.asm["ptx"], kernel.metadata.name, kernel.metadata.shared
        linked = assemble(ptx, arch)
        scratch = (0,) * (
            len(re.findall(rf"\.param \.u64 .*{name}_param_", ptx)) - 3
        )  # pointers to memory not used here
        grid = -(-size.m // tiles.m) * -(-size.n // tiles.n)
        launch = Launch(linked.cubin, name, grid, tiles.threads, shared)
        sizes = tuple(map(Int32, (size.m, size.n, size.k)))

        def run(a: Any, b: Any, c: Any) -> None:
            launch(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes, *scratch)

        return Contender("triton", str(tiles), run, linked.registers, linked.stack, count_mma(ptx))

    return each_tiles("triton", build)


def tilelang(size: Size, arch: str) -> Iterator[Contender]:
    """The matmul of TileLang's examples, compiled for all tiles at once (nvcc takes 10 s for each)."""
    global T  # TileLang looks names up in the module
    try:
        import tilelang
        import tilelang.language as T
        from tvm.target import Target
    except ImportError as error:
        raise Missing(f"not installed ({error})") from None

    def program(tiles: Tiles) -> Any:
        M, N, K = size.m, size.n, size.k
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

    start = time.perf_counter()
    target = Target({"kind": "cuda", "arch": "sm_80", "code": [arch]})
    programs = [program(tiles) for tiles in TILES]
    kernels: list[Any] = []
    for backend in ("cython", "tvm_ffi"):  # the first makes a library whose registers can be read; either will do
        if not any(kernels):
            kernels = tilelang.par_compile(programs, target=target, execution_backend=backend, ignore_error=True)
    seconds = (time.perf_counter() - start) / len(TILES)
    for tiles, kernel in zip(TILES, kernels, strict=True):
        if kernel is None:
            yield Contender("tilelang", str(tiles), None, failure="does not compile")
            continue
        registers, local = resource_usage(getattr(kernel.adapter, "libpath", None))
        text = kernel.get_kernel_source()
        yield Contender("tilelang", str(tiles), kernel, registers, local, count_mma(text), seconds)


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


def count_mma(text: str) -> tuple[int, int]:
    """How often the warp's and the warpgroup's matrix instructions stand in PTX or CUDA source."""
    return len(re.findall(r"\bmma[._]sync", text)), len(re.findall(r"\bwgmma", text))


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


CONTENDERS: dict[str, Callable[[Size, str], Iterator[Contender]]] = {
    "minitile": minitile,
    "triton": triton,
    "tilelang": tilelang,
    "cublas": cublas,
}
