"""`make fuzz`: random programs until the time is up, each kind in turn, on every target that knows what they use.

    python -m tests.fuzz --minutes 60 --seed 12345

    tiles     kernels as people write them: pipelined loops, gemms, branches, buffers used again, persistent kernels
    roles     explicit roles of warpgroups, with rings of slots between them (sm_90a only)
    traced    traced IR of every shape, however odd
    scalars   the language: control flow on numbers, against Python itself (one target)

What goes wrong is written to build/fuzz with its seed (`--only KIND:SEED` runs it again) and makes the exit status
1. A kernel that the compiler refuses with a MinitileError is counted, not a failure: what it must not do is compute
another result, race, hang, or break down.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory

import minitile as mt
from tests.fuzz import role_programs, tile_programs
from tests.language.test_random_programs import check as check_scalars
from tests.lowering import test_random_kernels as kernels

SCHEDULES = ("lazy", "eager", "random", "random")
PATIENCE = 300  # seconds that one program may take before it counts as hanging
REPORT = 300  # seconds between two lines of progress


def tiles(seed: int, target: str) -> None:
    schedule = SCHEDULES[seed % 4]
    tile_programs.check(tile_programs.write(seed), target, [(schedule, seed)])


def roles(seed: int, target: str) -> None:
    role_programs.check(role_programs.write(seed), [(SCHEDULES[seed % 4], seed)])


def traced(seed: int, target: str) -> None:
    kernels.compare_machine_code(random.Random(seed), seed % 5, target)


def scalars(seed: int, _: str) -> None:
    with TemporaryDirectory() as folder:
        check_scalars(seed, Path(folder))


KINDS: dict[str, Callable[[int, str], None]] = {"tiles": tiles, "roles": roles, "traced": traced, "scalars": scalars}
TARGETS = {"roles": ("sm_90a",), "scalars": ("sm_80",)}  # the others: both
TEXTS = {"tiles": lambda seed: tile_programs.write(seed).text, "roles": lambda seed: role_programs.write(seed).text}


class HangError(Exception):
    """A program has taken longer than PATIENCE."""


def _hangs(*_: object) -> None:
    raise HangError(f"no end after {PATIENCE} s")


def one(kind: str, seed: int) -> list[tuple[str, str]]:
    """(outcome, report) for each target."""
    found = []
    signal.signal(signal.SIGALRM, _hangs)
    for target in TARGETS.get(kind, ("sm_80", "sm_90a")):
        signal.alarm(PATIENCE)
        try:
            KINDS[kind](seed, target)
            found.append(("fine", ""))
        except HangError:
            found.append(("hanging", f"{kind}:{seed} for {target}\n{traceback.format_exc()}"))
        except (mt.RaceError, mt.SimulationError):
            found.append(("at fault", f"{kind}:{seed} for {target}\n{traceback.format_exc()}"))
        except mt.MinitileError as error:
            internal = type(error).__name__ == "InternalError"
            found.append(("broken" if internal else "refused", f"{kind}:{seed} for {target}\n{error}"))
        except AssertionError:
            found.append(("another result", f"{kind}:{seed} for {target}\n{traceback.format_exc()}"))
        except Exception:
            found.append(("broken", f"{kind}:{seed} for {target}\n{traceback.format_exc()}"))
        finally:
            signal.alarm(0)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random programs until the time is up.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the first program (default: from the clock)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most", type=int, default=10**9, help="programs of each kind")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--only", metavar="KIND:SEED", help="run one program again")
    args = parser.parse_args()
    if args.only:
        kind, _, seed = args.only.partition(":")
        args.kinds, args.seed, args.most = [kind], int(seed), 1
    start = int(time.time()) % 10**6 * 1000 if args.seed is None else args.seed
    end = time.monotonic() + args.minutes * 60
    counts: Counter[str] = Counter()
    failures: list[str] = []
    print(f"programs from seed {start}", flush=True)
    said = time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        seed = start
        while time.monotonic() < end and seed < start + args.most:
            upto = min(seed + 8 * args.jobs, start + args.most)
            waiting = {pool.submit(one, kind, s): kind for s in range(seed, upto) for kind in args.kinds}
            for future in as_completed(waiting):
                for outcome, report in future.result():
                    counts[f"{waiting[future]} {outcome}"] += 1
                    if outcome not in ("fine", "refused"):
                        failures.append(report)
                        _keep(outcome, report)
            seed = upto
            if time.monotonic() - said > REPORT:
                said = time.monotonic()
                print(f"up to seed {seed}: {sum(counts.values())} runs, {len(failures)} failures", flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    print(f"{sum(counts.values())} programs compiled and run, {len(failures)} failures")
    return 1 if failures else 0


def _keep(outcome: str, report: str) -> None:
    name = report.partition("\n")[0].replace(":", "_").replace(" ", "_")
    folder = Path("build/fuzz")
    folder.mkdir(parents=True, exist_ok=True)
    kind, seed = report.partition(" ")[0].split(":")
    program = TEXTS[kind](int(seed)) if kind in TEXTS else ""
    (folder / f"{name}.txt").write_text(f"{outcome}\n{report}\n{program}", encoding="utf-8")
    print(f"{outcome}: {report.partition(chr(10))[0]} (see {folder / name}.txt)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
