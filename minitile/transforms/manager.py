"""Runs passes over a kernel: timing, dumping, verifying, leaving out.

A pass is a function `(kernel, context) -> None` that changes the kernel in place. What the environment asks for:

MINITILE_DUMP       names of passes with commas between, or `all`: print the IR after each of these, to stderr
MINITILE_DUMP_DIR   a folder: dump there instead, as `KERNEL.NUMBER.PASS.mt`
MINITILE_VERIFY     1: verify the IR before the first pass and after each one
                    scopes: only that each use is dominated by its definition
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minitile.backends.base import NO_RULES, Rules
from minitile.ir.core import Kernel
from minitile.ir.diagnostics import HostError, IRError, MinitileError
from minitile.ir.printer import print_kernel
from minitile.ir.verifier import verify as verify_kernel
from minitile.ir.verifier import verify_scopes
from minitile.target import DEFAULT, Target
from minitile.transforms.schedule.cost import Turn
from minitile.transforms.warp_specialize.verify_pipelines import verify_pipelines


@dataclass
class PassContext:
    """What passes share besides the kernel: the target, what its backend says of its instructions, the time each took,
    in milliseconds by name, and notes for `compile --explain`: what was not done and why; and, where they are asked
    for, the turns of loops that were written by a schedule."""

    target: Target = DEFAULT
    rules: Rules = NO_RULES
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    off: frozenset[str] = frozenset()  # the passes left out
    turns: list[Turn] | None = None

    def ran(self, name: str) -> bool:
        """Whether a pass has run, and was not left out."""
        return name in self.timings

    def runs(self, name: str) -> bool:
        """Whether a pass, which may stand behind this one, is not left out."""
        return name not in self.off


Pass = Callable[[Kernel, PassContext], None]
After = Callable[[str, Kernel, float], None]  # a pass's name, the kernel behind it, and the milliseconds it took


def run_passes(
    kernel: Kernel,
    passes: Sequence[tuple[str, Pass]],
    context: PassContext,
    *,
    switches: Mapping[str, bool] | None = None,
    optional: Collection[str] = (),
    verify: bool = False,
    after: After | None = None,
) -> None:
    """Run the passes in order, in place; `after` each one is told what came out, and must leave it as it is.

    `switches` turns passes off by name (`{"vectorize": False}`); only `optional` ones can be. Raises MinitileError for
    a switch that names no pass or one that is needed, IRError when asked to verify and a pass leaves malformed IR.
    """
    off = _switched_off(switches or {}, [name for name, _ in passes], optional)
    context.off = frozenset(off)
    dumped = {current_name(name) for name in os.environ.get("MINITILE_DUMP", "").split(",") if name}
    asked = "1" if verify else os.environ.get("MINITILE_VERIFY", "0")
    verify_ir = _VERIFY.get(asked)
    if verify_ir is not None:
        _verify(kernel, verify_ir, "before the first pass")
    for number, (name, run) in enumerate(passes):
        if name in off:
            continue
        start = time.perf_counter()
        run(kernel, context)
        spent = (time.perf_counter() - start) * 1e3
        context.timings[name] = context.timings.get(name, 0.0) + spent
        if name in dumped or "all" in dumped:
            dump(kernel, name, number)
        if after is not None:
            after(name, kernel, spent)
        if verify_ir is not None:
            _verify(kernel, verify_ir, f"after the pass {name}")


def dump(kernel: Kernel, name: str, number: int) -> None:
    """The IR after a pass, to stderr or into the folder MINITILE_DUMP_DIR."""
    text = f"// {kernel.name} after {name}\n{print_kernel(kernel)}"
    folder = os.environ.get("MINITILE_DUMP_DIR")
    if not folder:
        print(text, file=sys.stderr)
        return
    path = Path(folder)
    # A file's name has at most 255 bytes.
    file = f"{re.sub(r'[^A-Za-z0-9_]', '_', kernel.name)[:200]}.{number:02}.{name}.mt"
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"MINITILE_DUMP_DIR={folder!r} cannot be written: {error}", hint="name another folder"
        ) from None


# Names that passes had before; `passes=`, `--without`, `--pass` and MINITILE_DUMP still take them.
FORMER_NAMES = {
    "ahead_of_grid": "pdl_prefetch",
    "complete_stores": "insert_bulk_store_waits",
    "count_tokens": "resolve_wait_counts",
    "delay_waits": "sink_bulk_store_waits",
    "drop_turns": "elide_order_barriers",
    "early_loads": "hoist_loads",
    "first_products": "accumulator_init",
    "flights": "lower_manual_wgmma",
    "forget_corners": "drop_access_ranges",
    "fragments_to_values": "mem2reg",
    "global_waits": "insert_vmcnt_waits",
    "guard_masks": "version_masks",
    "induction": "strength_reduction",
    "late_waits": "sink_wgmma_waits",
    "leading_versions": "detect_multibuffers",
    "one_role": "tma_multistage",
    "parallel_to_tiles": "tile_vectorize",
    "place_shared": "allocate_shared_memory",
    "reducers": "expand_reducers",
    "specialise": "warp_specialize",
    "split_roles": "partition_warpgroups",
    "strip_mine": "chunk_epilogue",
}


def current_name(name: str) -> str:
    """The name of a pass that may be given by a former one."""
    return FORMER_NAMES.get(name, name)


def _switched_off(switches: Mapping[str, bool], names: Collection[str], optional: Collection[str]) -> set[str]:
    known = f"passes that can be switched: {', '.join(sorted(optional)) or 'none'}"
    switches = {current_name(name): on for name, on in switches.items()}
    for name, on in switches.items():
        if name not in names:
            raise MinitileError(f"there is no pass {name!r}", hint=known)
        if not on and name not in optional:
            raise MinitileError(f"the pass {name!r} cannot be left out", hint=known)
    return {name for name, on in switches.items() if not on}


def _all(kernel: Kernel) -> None:
    verify_kernel(kernel)
    verify_pipelines(kernel)


_VERIFY: dict[str, Callable[[Kernel], None]] = {"1": _all, "scopes": verify_scopes}


def _verify(kernel: Kernel, check: Callable[[Kernel], None], when: str) -> None:
    try:
        check(kernel)
    except IRError as e:
        raise IRError(f"{when}: {e.message}", e.loc, e.hint) from e
