"""A backend and a target of its own, written here and registered: what a new one takes, and that it is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.base import NO_RULES, Backend, Costs, Pass, Program, Rules, Written
from minitile.backends.registry import backend_of, backend_of_device, backend_of_text, register, unregister
from minitile.hardware import Target
from minitile.ir.core import Block, Kernel
from minitile.ir.diagnostics import TargetError
from minitile.lowering.legalize import Legalizer, common_rules
from minitile.runtime.errors import ArgumentError
from minitile.target import TARGETS, parse_target
from minitile.tools.cli import main


class ToyProgram(Program):
    """A text that is its own binary."""

    def launcher(self, info: Any) -> Any:
        raise ArgumentError("there is no such GPU")

    @property
    def binary(self) -> bytes:
        return self.text.encode()

    def costs(self) -> Costs:
        return Costs(self.text.count("\n"), 0)

    def summary(self) -> str:
        return f"{len(self.text)} characters"


class ToyBackend(Backend):
    """Writes one line for each operation of thread IR: its result, its name, its operands."""

    name = "toy"
    texts = ("toy",)
    binary = "bin"
    device_kind = "toy"
    seen: tuple[str, ...] = ()

    def rules(self, target: Target) -> Rules:
        return NO_RULES

    def passes(self, target: Target) -> Mapping[str, Sequence[tuple[str, Pass]]]:
        def count(kernel: Kernel, _: Any) -> None:
            ToyBackend.seen = tuple(op.mnemonic for op in kernel.walk())

        return {"thread_barriers": [("toy_count", count)]}

    def legalize(self, kernel: Kernel, target: Target) -> None:
        Legalizer(kernel, target, common_rules(lambda self, op: None), lambda *_: None).run(kernel)

    def write(self, kernel: Kernel, target: Target, notes: list[str]) -> Written:
        names: dict[Any, str] = {}

        def name(value: Any) -> str:
            return names.setdefault(value, f"%{len(names)}")

        def lines(block: Block, depth: int) -> Iterator[str]:
            for op in block.ops:
                results, operands = (", ".join(map(name, values)) for values in (op.results, op.operands))
                kind = "".join(f".{r.type.dtype.name}" for r in op.results if hasattr(r.type, "dtype"))
                yield f"{'  ' * depth}{results}{' = ' * bool(results)}{op.mnemonic}{kind} {operands}"
                for region in op.regions:
                    yield from lines(region, depth + 1)

        text = "\n".join([f"toy {kernel.name} for {target}", *lines(kernel.body, 1), ""])
        params = tuple((v.name, "pointer", v.type.dtype.name) for v in kernel.params)
        notes.append("written by a toy")
        return Written({"toy": text}, kernel.name, params, {"toy": 0.0})

    def program(self, texts: Mapping[str, str], entry: str, target: Target) -> Program:
        return ToyProgram(texts["toy"])

    def reads(self, text: str) -> bool:
        return text.startswith("toy ")

    def program_of_text(self, text: str) -> Program:
        return ToyProgram(text)

    def entries(self, text: str) -> list[str]:
        return [text.split()[1]]

    def instructions(self, text: str) -> Counter[str]:
        return Counter(w.partition(".")[0] for w in text.split() if w.startswith(("load_mem", "store_mem")))

    def simulator(self) -> Callable[..., Any]:
        raise TargetError("nothing simulates a toy")

    def launch_options(self, info: Any) -> dict[str, Any]:
        return {}

    def check_grid(self, grid: Sequence[int], block: Sequence[int]) -> None:
        if grid[0] > 4:
            raise ArgumentError("a toy has four blocks")


TOY = Target("toy_1", "toy", "toy_1", "toy_1", "", (0, 0), 16 * 1024, 16 * 1024, frozenset(), lanes=32)


@pytest.fixture
def toy() -> Iterator[ToyBackend]:
    backend = ToyBackend()
    register(backend, [TOY])
    yield backend
    unregister("toy")


@mt.kernel
def add(A: T.Tensor((1024,), T.float32), B: T.Tensor((1024,), T.float32), C: T.Tensor((1024,), T.float32)):
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]


def test_a_vector_add(toy: ToyBackend) -> None:
    compiled = add.compile(target="toy_1")
    lines = [line.split("=")[-1].split()[0] for line in compiled.asm["toy"].splitlines()[1:]]
    assert [lines.count(name) for name in ("load_mem.f32", "add.f32", "store_mem")] == [2, 1, 1]
    assert compiled.text.startswith("toy add for toy_1\n")
    assert compiled.binary == compiled.text.encode()
    assert (compiled.registers, compiled.spills) == (len(lines) + 1, 0)
    assert compiled.notes == ("written by a toy",)
    assert {"trace", "passes", "toy"} <= set(compiled.timings)
    assert "toy_count" in compiled.pass_timings, "a pass of its own has run"
    assert "store_mem" in ToyBackend.seen
    assert [p.name for p in compiled.launch_info.params] == ["A", "B", "C"]
    with pytest.raises(TargetError, match="no backend lowers gemm"):
        gemm.compile(target="toy_1")


@mt.kernel
def gemm(A: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1, threads=128):
        S, F = T.alloc_shared((64, 64), T.float16), T.alloc_fragment((64, 64), T.float32)
        T.clear(F)
        T.copy(A, S)
        T.gemm(S, S, F)
        T.copy(F, C)


def test_it_is_found_by_name_device_and_text(toy: ToyBackend) -> None:
    assert parse_target("toy_1") is TOY
    assert backend_of(replace(TOY, max_shared=1)) is backend_of_device("toy") is backend_of_text("toy x") is toy
    assert backend_of_text(".version 8.0\n").name == "nvidia"
    with pytest.raises(ValueError, match="toy"):
        register(ToyBackend(), [])
    with pytest.raises(ValueError, match="sm_80"):
        register(type("Other", (ToyBackend,), {"name": "other"})(), [TARGETS["sm_80"]])


def test_the_command_line_knows_it(toy: ToyBackend, tmp_path: Any, capsys: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import minitile as mt\nimport minitile.language as T\n\n@mt.kernel\n"
        "def copy(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):\n"
        "    with T.Kernel(1, threads=128):\n        for i in T.Parallel(128):\n            B[i] = A[i]\n"
    )
    assert main(["compile", f"{program}:copy", "--target", "toy_1", "--emit", "toy"]) == 0
    assert capsys.readouterr().out.startswith("toy copy for toy_1\n")
    assert main(["compile", f"{program}:copy", "--target", "toy_1", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "1 load_mem, 1 store_mem" in said
    assert "characters" in said


def test_afterwards_it_is_gone() -> None:
    assert "toy_1" not in TARGETS
    assert backend_of_device("toy") is None
    with pytest.raises(TargetError, match="unknown target"):
        parse_target("toy_1")
