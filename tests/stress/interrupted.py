"""`python -m tests.stress interrupts`: SIGINT at random moments of compilations, and what comes afterwards.

A process (`python -m tests.stress.interrupted`) compiles what it is told to and gets one or two SIGINTs meanwhile, to
itself or to its whole group, as from a terminal. Then, undisturbed, it compiles another kernel and the interrupted one:
both must be right (executed by the simulator; cubins compared with those of an undisturbed process). Between rounds it
has one helper process at most, LLVM's; at its end, by itself or by SIGKILL, none. Last of all, a fresh process finds in
the cache what is right, or nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minitile.backends.nvidia import assemble as assembling
from minitile.backends.nvidia.assemblers import find_ptxas
from tests.stress import texts

LIFE = 25  # rounds of one process
PATIENCE = 90.0  # seconds for a round
STEPS = (1, 20, 200)
GRACE = 5.0  # seconds in which what was killed must be gone


def processes_with(token: str) -> list[int]:
    """The processes whose environment has these words, zombies aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (path / "environ").read_bytes() and int(path.name) != os.getpid():
                found.append(int(path.name))
        except OSError:
            continue
    return found


# The process that is interrupted -------------------------------------------------------------------------------------

_interrupts = 0


def _interrupt(*_: Any) -> None:
    global _interrupts
    _interrupts += 1
    raise KeyboardInterrupt


def attempt(work: Callable[[], Any], expected: int) -> bool:
    """Begins the work and waits for the interrupts; whether the work had been done before."""
    global _interrupts
    _interrupts, begun, finished = 0, False, False
    while True:
        try:
            signal.signal(signal.SIGINT, _interrupt)
            if not begun:
                begun = True
                print(json.dumps({"begun": True}), flush=True)
                work()
                finished = True
            while _interrupts < expected:
                time.sleep(0.0005)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return finished
        except KeyboardInterrupt:
            continue


def made(n: int, steps: int, target: str, ptxas: bool) -> dict[str, Any]:
    """A kernel, compiled and executed; the digest of its cubin."""
    assembling.assembler_for = find_ptxas if ptxas else _assembler_for
    compiled = texts.compiled(n, target, steps)
    binary = b"" if target.startswith("gfx") else compiled.binary
    return {
        "right": texts.is_right(compiled, n, steps),
        "case": [n, steps, target, ptxas],
        "digest": hashlib.sha256(binary + compiled.text.encode()).hexdigest(),
    }


_assembler_for = assembling.assembler_for


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        finished = False
        if order["interrupts"]:
            finished = attempt(lambda case=order["first"]: made(*case), order["interrupts"])
        start = time.monotonic()
        found = [made(*case) for case in (order["second"], order["first"])]
        print(json.dumps({"found": found, "late": finished, "seconds": time.monotonic() - start}), flush=True)


# The one that interrupts it ------------------------------------------------------------------------------------------


class Session:
    """A process to interrupt."""

    def __init__(self, environment: dict[str, str], root: Path) -> None:
        command = [sys.executable, "-m", "tests.stress.interrupted"]
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.rest = b""

    def tell(self, order: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None where none comes in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError(f"the process ended with {self.process.wait()}")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def interrupt(self, group: bool) -> None:
        (os.killpg if group else os.kill)(self.process.pid, signal.SIGINT)


def one_round(session: Session, rng: random.Random, cases: list[Any], seen: dict[str, str]) -> str:
    """What was wrong; empty if nothing."""
    first, second = rng.sample(cases, 2)
    interrupts = rng.choice([1, 1, 2])
    session.tell({"first": first, "second": second, "interrupts": interrupts})
    if session.hear(PATIENCE) != {"begun": True}:
        return f"{first}: it did not begin"
    longest = {1: 0.15, 20: 0.25, 200: 1.2}[first[1]]
    time.sleep(rng.choice([rng.random() ** 2, rng.random()]) * longest)
    group = rng.random() < 0.5
    session.interrupt(group)
    if interrupts == 2:
        time.sleep(rng.random() * 0.06)
        session.interrupt(group)
    end, said = time.monotonic() + PATIENCE, None
    while said is None and time.monotonic() < end:
        said = session.hear(3)
        if said is None:  # two came as one
            session.interrupt(group)
    if said is None:
        return f"{first}: it hangs"
    for found in said["found"]:
        if not found["right"]:
            return f"after an interrupt of {first}, {found['case']} is wrong"
        known = seen.setdefault(json.dumps(found["case"]), found["digest"])
        if known != found["digest"]:
            return f"after an interrupt of {first}, {found['case']} is another"
    return ""


def left(token: str, allowed: int) -> list[int]:
    """Processes beyond so many, after a moment. Those that the stress itself has stopped go on before."""
    end = time.monotonic() + GRACE
    while len(found := processes_with(token)) > allowed and time.monotonic() < end:
        for pid in found if not allowed else ():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
    return found if len(found) > allowed else []


def undisturbed(environment: dict[str, str], root: Path, cases: list[Any], seen: dict[str, str]) -> str:
    """Whether a fresh process makes, or finds, the same."""
    session = Session(environment, root)
    try:
        for number, first in enumerate(cases):
            session.tell({"first": first, "second": cases[number - 1], "interrupts": 0})
            said = session.hear(PATIENCE)
            for found in said["found"] if said else ():
                if not found["right"] or seen.get(json.dumps(found["case"]), found["digest"]) != found["digest"]:
                    return f"{found['case']} is another in a fresh process"
            if said is None:
                return "a fresh process hangs"
    finally:
        session.process.stdin.close()
        session.process.wait()
    return ""


def run(state: Any, environment: Callable[..., dict[str, str]], root: Path) -> str:
    """What was wrong; empty if nothing."""
    targets = [("gfx942", False), ("gfx950", False), ("sm_80", False), *([("sm_80", True)] if find_ptxas() else [])]
    cases = [[n, steps, *target] for n in range(5) for steps in STEPS for target in targets]
    rng = random.Random(f"{state.data['seed']} {state.data['done']}")
    seen: dict[str, str] = {}
    start, before, wrong = time.monotonic(), state.data["seconds"], ""
    with TemporaryDirectory(prefix="minitile-stress-") as token:
        own = environment(MINITILE_CACHE_DIR=token + "/cache", MINITILE_HELPER_SECONDS="60")
        while state.left > 0 and not wrong:
            session = Session(own, root)
            state.data["lives"] += 1
            try:
                for _ in range(min(LIFE, state.left)):
                    wrong = one_round(session, rng, cases, seen)
                    if not wrong and (found := left(token, 2)):
                        wrong = f"processes are left: {found} beside {session.process.pid}"
                    if wrong:
                        break
                    state.note(1, {})
            except EOFError as error:
                wrong = str(error)
            if rng.random() < 0.5:
                session.process.kill()
            session.process.stdin.close()
            session.process.wait()
            if not wrong and (found := left(token, 0)):
                wrong = f"processes outlive theirs: {found}"
            state.data["seconds"] = before + time.monotonic() - start
            state.save()
            print(f"{state.data['done']} interrupts", flush=True)
        for switch in ("1", "0"):  # what is in the cache; and without any
            wrong = wrong or undisturbed({**own, "MINITILE_CACHE": switch}, root, cases, seen)
        return wrong


if __name__ == "__main__":
    serve()
