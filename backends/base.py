"""What a backend is: all that the compiler asks of the vendor of a target, in one class.

    rules       which layouts a gemm's instructions demand, and how tile operations become thread IR      `Rules`
    passes      its own, behind those of the pipeline
    legalize    operations and types that the target lacks, as others
    write       thread IR as texts: the last one is what runs and is simulated                            `Written`
    program     what becomes of that text: a binary, its costs, a launcher for GPUs                       `Program`
    simulator   what executes the text without a GPU, what weakens its synchronisation, what estimates its time
    devices     which target a device is given

`Rules` is one record per lowering (sm_80, …). `infer_layouts` asks `gemm_plan` which layouts a gemm needs; `lower`
looks up each tile operation in `lower`. registry.py finds the backend of a target; docs/extending.md says what a new
one takes. A method imports what it needs when it is called: a backend that is not compiled for costs nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar

from minitile.analysis.affine import Facts
from minitile.hardware import Target
from minitile.ir.core import Kernel, Op
from minitile.ir.diagnostics import MinitileError, TargetError
from minitile.ir.ops.tile import Copy, Gemm
from minitile.layout import Layout
from minitile.lowering.context import Lowering

if TYPE_CHECKING:
    from minitile.runtime.launch_info import LaunchInfo
    from minitile.runtime.launcher_base import BaseLauncher
    from minitile.runtime.saved import Saved
    from minitile.runtime.sim import Report


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a gemm of `shape` (M, N, K) is split over `warps` (along M, along N), each of which does `atom` as often as
    `repeats` says (along M, N, K), `step` elements of K at a time. `a` is the layout of a M×K tile, `b` of K×N, `c` of
    M×N; where blocks have scales, `a_scale` of M×K/32, `b_scale` of N×K/32, and a and b are of the bytes that the
    operands are packed in."""

    atom: str
    shape: tuple[int, int, int]
    repeats: tuple[int, int, int]
    warps: tuple[int, int]
    step: int
    a: Layout
    b: Layout
    c: Layout
    a_scale: Layout | None = None
    b_scale: Layout | None = None


def refuse_scales(op: Gemm, target: object) -> None:
    """Raises TargetError for a gemm with scales of blocks, on a target that has no instruction for it."""
    if op.scaled:
        raise TargetError(
            f"{target} multiplies nothing with scales of blocks",
            op.loc,
            hint="gfx950 does (mfma_scale); elsewhere multiply by the scales in a T.Parallel loop, as bfloat16, and "
            "T.gemm that",
        )


def _none_in_flight(op: Gemm, threads: int) -> str:
    return "the target multiplies nothing asynchronously"


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation of thread IR asks of a multiprocessor. unit: the rate of `hardware.Rates` that holds for it.
    packed: how many registers of its result one instruction makes. whole: of one that the threads do not wait for, all
    that the unit does for it, for the warps that issue it together; 0 where a warp has an instruction for each
    `packed` registers."""

    unit: str
    packed: int = 1
    whole: float = 0.0


def _unknown_work(op: Op) -> Work | None:
    return None


def _through_registers(facts: Facts, op: Copy, threads: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Rules:
    """gemm_plan(op, threads) raises MinitileError where no instruction fits. `lower` maps operation classes to
    functions (lowering, op) -> the values of op's results. refuses_async(op, threads) says why no asynchronous
    instruction does a gemm on whole shared matrices; "" where one does. copies_itself(facts, op, threads): does an
    instruction copy this from global to shared memory, past the registers?"""

    gemm_plan: Callable[[Any, int], GemmPlan]
    lower: dict[type[Op], Callable[[Lowering, Any], Any]]
    refuses_async: Callable[[Gemm, int], str] = _none_in_flight
    copies_itself: Callable[[Facts, Copy, int], bool] = _through_registers
    work: Callable[[Op], Work | None] = _unknown_work


def _no_backend(op: Gemm, threads: int) -> GemmPlan:
    raise TargetError("no backend lowers gemm for this target", op.loc)


NO_RULES = Rules(_no_backend, {})


# The texts, and what becomes of the last one --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """What a backend writes of a kernel. `texts` by name, in the order in which they are made; the last one runs and is
    simulated. `params`: (name, kind, dtype) of the entry's parameters in order. `milliseconds` for each text."""

    texts: Mapping[str, str]
    entry: str
    params: tuple[tuple[str, str, str], ...]
    milliseconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one thread: registers, and bytes that are spilled (stores and loads, or scratch memory)."""

    registers: int
    spills: int


class AssemblerWarning(UserWarning):
    """A remark on how a kernel was assembled."""


class Program(ABC):
    """The final text of one kernel, and what can be made of it. The caller that compiled it may set `remark`,
    which is told of what costs speed, and `timings`, which gets the milliseconds of "assemble"."""

    text: str
    remark: Callable[[str], None]
    timings: dict[str, float]

    def __init__(self, text: str) -> None:
        self.text = text
        self.remark = lambda _: None
        self.timings = {}

    @abstractmethod
    def launcher(self, info: LaunchInfo) -> BaseLauncher:
        """What launches it on GPUs. Raises the runtime's UnavailableError where there is no driver."""

    @property
    @abstractmethod
    def binary(self) -> bytes:
        """The cubin, the code object, … for the target. Raises MinitileError where no assembler or linker is found."""

    def saved(self, name: str, info: LaunchInfo) -> Saved:
        """What another program, or another machine, needs to launch it. Raises MinitileError as `binary` does."""
        raise TargetError(f"no code is kept for {name}'s target")

    @abstractmethod
    def costs(self) -> Costs:
        """Of what was launched, else of the binary."""

    def known_costs(self) -> Costs | None:
        """The costs, where they are known without assembling."""
        return None

    @property
    def assembled(self) -> Any:
        """The binary with all that the assembler says of it, where there is more to say than `costs`. Raises
        TargetError where there is not."""
        raise TargetError("no assembler's account is kept for this target", hint="see .binary, .registers and .spills")

    def prebuilt(self) -> Any:
        """What another process can make of the program and hand over to `adopt`: picklable; None where there is nothing
        to gain."""
        return None

    def adopt(self, prebuilt: Any) -> None:
        """Takes what `prebuilt` made elsewhere of the same text. Raises TypeError for what it never made."""
        raise TypeError(f"{type(self).__name__} has nothing to take over")

    @abstractmethod
    def summary(self) -> str:
        """Costs and size in one line, for a person."""


# What a backend is ----------------------------------------------------------------------------------------------------

Pass = Callable[[Kernel, Any], None]


class Backend(ABC):
    """One vendor's half of the compiler; it has no state.

    name: what `Target.backend` says. texts: the names of what `write` makes, in order. binary: what the assembled text
    is called ("cubin"). device_kind: the kind of the devices whose arrays it launches on ("cuda").
    """

    name: ClassVar[str]
    texts: ClassVar[tuple[str, ...]]
    binary: ClassVar[str]
    device_kind: ClassVar[str]

    # Compiling

    @abstractmethod
    def rules(self, target: Target) -> Rules:
        """The lowering rules of a target, the same record each time."""

    def passes(self, target: Target) -> Mapping[str, Sequence[tuple[str, Pass]]]:
        """Passes of its own: by the name of a pass of the pipeline, what runs right behind that."""
        return {}

    @abstractmethod
    def legalize(self, kernel: Kernel, target: Target) -> None:
        """Thread IR in place: what the target lacks becomes what it has. Raises TargetError."""

    @abstractmethod
    def write(self, kernel: Kernel, target: Target, notes: list[str]) -> Written:
        """The texts of legal thread IR. `notes` gets what a user should know of them."""

    @abstractmethod
    def program(self, texts: Mapping[str, str], entry: str, target: Target) -> Program:
        """What becomes of the texts. Does nothing by itself."""

    # Texts, wherever they come from

    @abstractmethod
    def reads(self, text: str) -> bool:
        """Whether assembly is this backend's."""

    @abstractmethod
    def program_of_text(self, text: str) -> Program:
        """As `program`, for a text alone, which says itself what it is for."""

    @abstractmethod
    def entries(self, text: str) -> list[str]:
        """The names of the kernels in a text."""

    @abstractmethod
    def instructions(self, text: str) -> Counter[str]:
        """How often those instructions stand in a text that a kernel's speed hangs on."""

    # Running without a GPU

    @abstractmethod
    def simulator(self) -> Callable[..., Report]:
        """(text, entry, grid, block, args, *, schedule, seed, check, only_first, and what the next two say)."""

    @abstractmethod
    def launch_options(self, info: LaunchInfo) -> dict[str, Any]:
        """What the simulator wants to know of a compiled kernel's launch besides grid and block."""

    def text_options(self, cluster: tuple[int, int, int], dynamic_shared: int) -> dict[str, Any]:
        """The same of a text's, whose launch a person describes."""
        return {"cluster": cluster, "dynamic_shared": dynamic_shared}

    @abstractmethod
    def check_grid(self, grid: Sequence[int], block: Sequence[int]) -> None:
        """Raises the runtime's ArgumentError for a grid that none of its GPUs launches."""

    def mutations(self) -> Callable[[str, str], Iterator[Any]]:
        """(text, entry) to texts of which each lacks one synchronising instruction."""
        raise MinitileError(f"no mutation testing is there for the assembly of {self.name}")

    def estimator(self) -> Callable[..., object]:
        """(text, entry, grid, block, args, …) to an estimate of the cycles, which prints itself."""
        raise MinitileError("cycles are estimated for AMD code only", hint="compile with --target gfx950")

    # Devices

    def target_of_device(self, index: int) -> Target:
        """For the device of that index. Raises TargetError where there is no lowering for it."""
        raise TargetError(f"no device is known to the backend {self.name}")

    def device_name(self, index: int) -> str:
        """What the device of that index calls itself."""
        return f"{self.device_kind}:{index}"

    def current_target(self) -> Target | None:
        """For the current device; None where there is none."""
        return None

    def doctor(self) -> Iterator[tuple[str, str]]:
        """What is installed, what is missing and how to get it: (name, text)."""
        yield from ()


def installed(package: str) -> str | None:
    """The version of a Python package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
