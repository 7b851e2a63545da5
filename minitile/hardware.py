"""What a GPU has, as data: the record of a target, and the numbers of the hardware, each once.

This file imports nothing, so that every part of the compiler may ask it. The rows are a backend's (`targets.py` in its
folder), `minitile.target` turns a name into one.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (shared memory, registers,
threads, local memory); PTX ISA 8.3, 9.7.12.1 "bar" (named barriers), 9.7.14 "wgmma" (warpgroups); CUDA Driver API,
cuTensorMapEncodeTiled (boxes).
"""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP = 128  # threads: the four warps that issue one wgmma
BLOCK_THREADS = 1024  # the most of a block, on every target
NAMED_BARRIERS = 16  # of a block
BLOCK_REGISTERS = 64 * 1024  # of a multiprocessor, which a block's threads can have together
THREAD_REGISTERS = 255  # the most that one thread has
TMA_BOX = 256  # elements of a TMA box in each dimension
TMA_LINE = 128  # bytes that a box's address in shared memory is a multiple of (PTX ISA 8.3, 5.5.1)
LOCAL_BYTES = 512 * 1024  # of a thread's own memory


@dataclass(frozen=True, slots=True)
class Rates:
    """What a multiprocessor does in a cycle at most.

    products: multiply-adds of 16-bit factors, on its tensor cores. arithmetic, special, integer, shuffled: f32
    additions, functions such as exp2, comparisons, minima and integer operations, and registers that go from lane to
    lane. shared: bytes of shared memory. copied: bytes from the L2 cache. latency: cycles from an arithmetic
    instruction to the first that may use its result. schedulers: of warps, each of which issues one instruction in a
    cycle and has its share of the units.

    Sources for NVIDIA's: CUDA C++ Programming Guide, "Arithmetic Instructions" (arithmetic, special, integer,
    shuffled) and "Multiprocessor Level" (latency, schedulers); the white papers of the A100 and H100 (products: 256 and
    512 multiply-adds in each of 4 tensor cores). 128 bytes are 32 banks. `copied` has no vendor's source: an H200 was
    measured to take 65 (docs/schedule.md, "Clocks"). AMD's are not yet compared with a source, which
    would be the white papers of CDNA 3 and CDNA 4. `--explain` shows what follows; CDNA 4's search goes by it.
    """

    products: int = 1024
    arithmetic: int = 128
    special: int = 16
    shared: int = 128
    copied: int = 64
    integer: int = 64
    shuffled: int = 32
    latency: int = 4
    schedulers: int = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture. Sizes in bytes.

    Attributes:
        name: what the user writes.
        backend: the one that compiles for it (backends/registry.py).
        arch: what the assembler is asked for (the device's own one for "auto").
        lowering: the architecture whose rules lower the kernel and which the assembly names.
        isa: the version of the assembly language, where it has one.
        capability: compute capability, (0, 0) where there is none.
        max_shared: dynamic shared memory that one block can have; above static_shared it must be asked for at launch.
        static_shared: see there.
        features: what `has` knows, by name; see below.
        lanes: the threads of a warp (AMD: of a wave).
        max_threads: of a block.
        max_registers: of one thread, of 32 bits each.
        block_registers: of a block's threads together.
        max_unrolled: elements of one operation, for each thread, for which code can be written in minutes.
        local_bytes: of a thread's own memory.
        multiprocessors: of the largest GPU of this architecture; 0 where that is not known.
        reserved_shared: of a multiprocessor's shared memory, what each block takes more than it asks for; one block
            has all of it but that.
        rates: what a multiprocessor does in a cycle.

    Features that passes and rules ask for: cp_async, ldmatrix, stmatrix, mma_DTYPE, wgmma, tcgen05, tcgen05_int8, tma,
    mbarrier, setmaxnreg, cluster, launch_control (of clusters), pdl (programmatic dependent launch), l2_window (a share
    of L2 kept for one tensor), shuffle (one instruction exchanges 32 bits between any two lanes), warp_barrier;
    mfma_DTYPE, mfma_scale, lds_dma, lds_dma_128, lds_transpose, counted_stores (a block's barrier orders nothing in
    global memory: waves wait for their own accesses by count); add_f16x2, add_bf16x2 (atomics on pairs of these),
    add_vectors (on up to 16 bytes of floats in global memory); max_f16x2, max_bf16x2 (the greater and lesser of pairs
    of these), warp_reduce (one instruction combines 32-bit integers of all lanes); clock64 (a register that counts a
    multiprocessor's cycles).
    """

    name: str
    backend: str
    arch: str
    lowering: str
    isa: str
    capability: tuple[int, int]
    max_shared: int
    static_shared: int
    features: frozenset[str]
    lanes: int = 32
    max_threads: int = BLOCK_THREADS
    max_registers: int = THREAD_REGISTERS
    block_registers: int = BLOCK_REGISTERS
    max_unrolled: int = 8192
    local_bytes: int = LOCAL_BYTES
    multiprocessors: int = 0
    reserved_shared: int = 0
    rates: Rates = Rates()

    def has(self, feature: str) -> bool:
        """Whether the target has a feature: one of the words of this module, such as "wgmma"."""
        return feature in self.features

    @property
    def vendor(self) -> str:
        """`backend`, as it was called before."""
        return self.backend

    def __str__(self) -> str:
        return self.name
