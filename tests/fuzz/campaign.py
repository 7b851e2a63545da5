"""The programs of users, by the thousand: each in every mode, and what came of it on record.

    python -m tests.fuzz.campaign --programs 1000 --jobs 2
    python -m tests.fuzz.campaign --report
    python -m tests.fuzz.campaign --only 17 --modes gfx950

A mode is a target and how it is compiled. A pair of program and mode is compiled once and run under each schedule of
the simulator; the arrays must be those of the NumPy reference, bit for bit, and the race model must be quiet. With
MINITILE_GPU=1 modes of NVIDIA's also run on the GPU. Every pair is one line of the record, so a second call goes on
where the first one stopped (`--again` runs once more what failed). A program that is refused counts as a failure: all
of them are legal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import minitile as mt
from tests.fuzz import explicit_programs, references, user_programs
from tests.fuzz.references import Program
from tests.fuzz.tile_programs import load_text

MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "sm_80": ("sm_80", {}),
    "sm_90a": ("sm_90a", {}),
    "sm_90a one role": ("sm_90a", {"warp_specialize": False}),
    "sm_90a explicit": ("sm_90a", {}),
    "gfx942": ("gfx942", {}),
    "gfx950": ("gfx950", {}),
}
FORMER = {"sm_90a by hand": "sm_90a explicit"}  # modes' names in older records
SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 1))
PATIENCE = 240  # seconds for one pair before it counts as hanging
BATCH = 128  # pairs for each process


@dataclass(frozen=True)
class Outcome:
    """`kind`: fine, wrong, race, refused, broken (another exception, or an internal error), hanging."""

    seed: int
    mode: str
    kind: str
    text: str
    constructs: tuple[str, ...]
    seconds: float


class HangError(BaseException):
    """A pair has taken longer than PATIENCE."""


def _hangs(*_: object) -> None:
    raise HangError


def program_for(seed: int, mode: str) -> Program:
    return (explicit_programs if mode == "sm_90a explicit" else user_programs).write(seed)


def check(program: Program, mode: str, gpu: bool = False) -> None:
    """Raises what goes wrong: an AssertionError for other numbers than the reference's."""
    target, options = MODES[mode]
    wanted = references.expected(program)
    with TemporaryDirectory() as folder:
        kernel = load_text(program.text, Path(folder))
        specs = [mt.spec(array.shape, array.dtype.name) for array in wanted.values()]
        compiled = kernel.compile(*specs, target=target, **options)
        if target.startswith("sm_"):
            assert compiled.binary  # the assembler takes it
        for schedule, seed in SCHEDULES:
            given = references.arrays(program)
            compiled.simulate(*given.values(), program.n, schedule=schedule, seed=seed)
            for name, array in wanted.items():
                np.testing.assert_array_equal(given[name], array, err_msg=f"{name}, {schedule}")
        if gpu and target.startswith("sm_"):
            _check_on_gpu(compiled, program, wanted)


def _check_on_gpu(compiled: mt.CompiledKernel, program: Program, wanted: dict[str, np.ndarray]) -> None:
    import torch

    def there(array: np.ndarray) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
        return torch.from_numpy(array).cuda()

    given = {name: there(array) for name, array in references.arrays(program).items()}
    compiled(*given.values(), program.n)
    torch.cuda.synchronize()
    for name, array in wanted.items():
        back = given[name]
        back = (
            back.view(torch.int16).cpu().numpy().view(array.dtype)
            if back.dtype == torch.bfloat16
            else back.cpu().numpy()
        )
        np.testing.assert_array_equal(back, array, err_msg=f"{name}, on the GPU")


def one(seed: int, mode: str, gpu: bool = False, end: float = math.inf) -> Outcome | None:
    """Compiles and runs one pair; None after the time `end` of the monotonic clock."""
    if time.monotonic() > end:
        return None
    start = time.perf_counter()
    program = program_for(seed, mode)
    kind, text = "fine", ""
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(PATIENCE)
    try:
        check(program, mode, gpu)
    except HangError:
        kind, text = "hanging", traceback.format_exc()
    except (mt.RaceError, mt.SimulationError) as error:
        kind, text = "race", f"{type(error).__name__}: {error}"
    except mt.MinitileError as error:
        kind = "broken" if type(error).__name__ in ("InternalError", "ScheduleError") else "refused"
        text = f"{type(error).__name__}: {error}"
    except AssertionError as error:
        kind = "wrong" if "Arrays are not equal" in str(error) else "broken"
        text = str(error) if kind == "wrong" else traceback.format_exc()
    except Exception:
        kind, text = "broken", traceback.format_exc()
    finally:
        signal.alarm(0)
    return Outcome(seed, mode, kind, text, tuple(sorted(program.constructs)), time.perf_counter() - start)


def read(record: Path) -> list[Outcome]:
    """The record's outcomes; of a pair that ran more than once, the last."""
    found: dict[tuple[int, str], Outcome] = {}
    if record.exists():
        for line in record.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            mode = FORMER.get(fields["mode"], fields["mode"])
            outcome = Outcome(**{**fields, "mode": mode, "constructs": tuple(fields["constructs"])})
            found[outcome.seed, outcome.mode] = outcome
    return list(found.values())


def report(outcomes: list[Outcome]) -> int:
    """Prints counts by mode and by construct, and the failures by their first line; the exit status."""
    kinds = sorted({o.kind for o in outcomes}, key=lambda kind: (kind != "fine", kind))
    print(f"{'mode':18}" + "".join(f"{kind:>10}" for kind in kinds))
    for mode in MODES:
        counts = Counter(o.kind for o in outcomes if o.mode == mode)
        if counts:
            print(f"{mode:18}" + "".join(f"{counts[kind]:10}" for kind in kinds))
    constructs = Counter(name for o in outcomes for name in o.constructs)
    print("pairs by construct:", ", ".join(f"{name} {count}" for name, count in sorted(constructs.items())))
    failures = [o for o in outcomes if o.kind != "fine"]
    causes: dict[tuple[str, str], list[Outcome]] = {}
    for o in failures:
        lines = [line for line in o.text.splitlines() if line.strip()]
        cause = lines[-1] if o.kind in ("broken", "hanging") and lines else (lines[0] if lines else "")
        causes.setdefault((o.kind, cause[:150]), []).append(o)
    for (kind, cause), those in sorted(causes.items(), key=lambda item: -len(item[1])):
        where = ", ".join(f"{o.seed} {o.mode}" for o in those[:4])
        print(f"{len(those):5} {kind}: {cause}\n        {where}")
    print(
        f"{len(outcomes)} pairs, {len(failures)} failures, {sum(o.seconds for o in outcomes):.0f} s of processor time"
    )
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100, help="for each mode")
    parser.add_argument("--start", type=int, default=0, help="seed of the first one")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after")
    parser.add_argument("--record", type=Path, default=Path("build/fuzz/campaign.jsonl"))
    parser.add_argument("--again", action="store_true", help="run once more what failed")
    parser.add_argument("--only", type=int, metavar="SEED", help="print one program and run it, without the record")
    parser.add_argument("--report", action="store_true", help="only say what is on record")
    args = parser.parse_args()
    gpu = os.environ.get("MINITILE_GPU") == "1"
    if args.only is not None:
        failed = 0
        for mode in args.modes:
            print(program_for(args.only, mode).text)
            outcome = one(args.only, mode, gpu)
            assert outcome is not None
            print(f"{mode}: {outcome.kind}\n{outcome.text}")
            failed |= outcome.kind != "fine"
        return int(failed)
    known = {(o.seed, o.mode): o for o in read(args.record)}
    wanted = [(seed, mode) for seed in range(args.start, args.start + args.programs) for mode in args.modes]
    waiting = [pair for pair in wanted if pair not in known or (args.again and known[pair].kind != "fine")]
    if not args.report and waiting:
        run(waiting, args.jobs, args.minutes, args.record, gpu)
    chosen = set(wanted)
    return report([o for o in read(args.record) if args.report or (o.seed, o.mode) in chosen])


def run(waiting: list[tuple[int, str]], jobs: int, minutes: float, record: Path, gpu: bool) -> None:
    """Runs pairs until they or the minutes are over, a line of the record each."""
    record.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + minutes * 60
    with record.open("a", encoding="utf-8") as out:
        for first in range(0, len(waiting), jobs * BATCH):
            with ProcessPoolExecutor(jobs) as pool:  # fresh processes: what they keep does not add up
                futures = [pool.submit(one, *pair, gpu, end) for pair in waiting[first : first + jobs * BATCH]]
                for outcome in (future.result() for future in futures):
                    if outcome is None:
                        continue
                    out.write(json.dumps(outcome.__dict__) + "\n")
                    out.flush()
                    if outcome.kind != "fine":
                        lines = outcome.text.strip().splitlines()
                        print(f"{outcome.kind}: {outcome.seed} {outcome.mode}: {lines[:1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
