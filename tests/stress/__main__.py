"""Trust in the host side, under stress.

    python -m tests.stress results --count 100000 --jobs 4 --seed 1
    python -m tests.stress interrupts --count 300 --seed 1

results       racing processes ask one cache for compiled code while its entries are swapped, damaged and forged, the
              helper processes killed and stopped, the disk full, and the processes themselves killed: each result must
              be the right one (an error says so; it is no result). See disturbed.py
interrupts    SIGINT at random moments of compilations for both vendors: the next result must be right, at once, from
              the compiler and from the cache; nothing may hang, no process may be left. See interrupted.py

What was done is kept in build/stress (`--state`), with the seed: a run that was ended goes on where it was. The exit
status is 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.stress import interrupted, texts

ROOT = Path(__file__).parents[2]
LIFE = 60.0  # seconds after which a process is killed, on average
DISK = 400  # KiB of the disk that is full
SILENCE = 120.0  # seconds without a word count as hanging


class State:
    """What was done so far, on disk."""

    def __init__(self, path: Path, seed: int, count: int) -> None:
        self.path = path
        self.data = {"seed": seed, "done": 0, "lives": 0, "seconds": 0.0, "errors": {}}
        if path.exists():
            found = json.loads(path.read_text())
            if found["seed"] == seed:
                self.data = found
        self.count = count

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.data, indent=1))
        os.replace(temporary, self.path)

    @property
    def left(self) -> int:
        return self.count - self.data["done"]

    def note(self, done: int, errors: dict[str, int]) -> None:
        self.data["done"] += done
        self.data["errors"] = dict(Counter(self.data["errors"]) + Counter(errors))


def environment(**changes: str) -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MINITILE_CACHE": "1", **changes}


def results(state: State, jobs: int) -> str:
    """What was wrong; empty if nothing."""
    with TemporaryDirectory(prefix="minitile-stress-") as name:
        folder = Path(name)
        write = f"from pathlib import Path; from tests.stress import texts; texts.write(Path({name!r}, 'texts.json'))"
        subprocess.run([sys.executable, "-c", write], env=environment(MINITILE_CACHE="0"), cwd=ROOT, check=True)
        print(f"{len(texts.read(folder / 'texts.json'))} texts", flush=True)
        disk = folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}k,mode=700", "minitile-stress", str(disk)]
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        if mounted:
            (disk / "real").touch()
        print(
            "a small tmpfs is the full disk" if mounted else "files that may not grow stand for a full disk", flush=True
        )
        try:
            return race(state, jobs, folder)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", str(disk)], check=False)


def race(state: State, jobs: int, folder: Path) -> str:
    rng = random.Random(f"{state.data['seed']} {state.data['lives']}")
    running: dict[subprocess.Popen[bytes], float] = {}  # until when they live
    rests: dict[subprocess.Popen[bytes], bytes] = {}  # of lines that have not come to their end
    selector = selectors.DefaultSelector()
    start, spoke = time.monotonic(), time.monotonic()

    def begin() -> None:
        state.data["lives"] += 1
        limit = rng.choice(["150K", "2M", "2M", "1G", "1G", "1G"])
        own = environment(
            MINITILE_CACHE_DIR=str(folder / "cache"), MINITILE_CACHE_SIZE=limit, MINITILE_HELPER_SECONDS="3"
        )
        command = [sys.executable, "-m", "tests.stress.disturbed", str(folder), str(rng.randrange(1 << 32))]
        with open(folder / "stderr", "ab") as said:
            process = subprocess.Popen(command, env=own, cwd=ROOT, stdout=subprocess.PIPE, stderr=said)
        os.set_blocking(process.stdout.fileno(), False)
        running[process] = time.monotonic() + 2 + rng.expovariate(1 / LIFE)
        selector.register(process.stdout, selectors.EVENT_READ, process)

    def end(process: subprocess.Popen[bytes]) -> None:
        selector.unregister(process.stdout)
        del running[process]
        rests.pop(process, None)
        process.kill()
        process.wait()
        process.stdout.close()

    before, reported = state.data["seconds"], time.monotonic()
    try:
        while state.left > 0:
            while len(running) < jobs:
                begin()
            for key, _ in selector.select(0.2):
                process = key.data
                said = process.stdout.read()
                if not said:
                    words = (folder / "stderr").read_text(errors="replace")[-3000:]
                    return f"a process ended with {process.wait()}: {words}"
                spoke = time.monotonic()
                *lines, rests[process] = (rests.get(process, b"") + said).split(b"\n")
                for line in lines:
                    found = json.loads(line)
                    if "wrong" in found:
                        return f"a wrong result: {found['wrong']}"
                    state.note(found["right"], found["errors"])
            for process, until in list(running.items()):
                if time.monotonic() > until:
                    end(process)
            state.data["seconds"] = before + time.monotonic() - start
            if time.monotonic() - spoke > SILENCE:
                return "nothing was said for two minutes"
            if time.monotonic() - reported > 20:
                reported = time.monotonic()
                state.save()
                print(f"{state.data['done']} results, {state.data['lives']} processes", flush=True)
    finally:
        for process in list(running):
            end(process)
        state.save()
        left = interrupted.left(str(folder), 0)  # also lets those go on that were stopped
    return f"processes are left: {left}" if left else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description="see the file's text")
    parser.add_argument("what", choices=("results", "interrupts"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--jobs", type=int, default=2, help="racing processes (results)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, help="where what was done is kept")
    args = parser.parse_args()
    path = args.state or ROOT / "build" / "stress" / f"{args.what}-{args.seed}.json"
    state = State(path, args.seed, args.count or {"results": 100_000, "interrupts": 300}[args.what])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wrong = results(state, args.jobs) if args.what == "results" else interrupted.run(state, environment, ROOT)
    state.save()
    data = state.data
    print(f"{data['done']} {args.what} in {data['seconds']:.0f} s, {data['lives']} processes; errors instead:")
    for text, count in sorted(data["errors"].items(), key=lambda item: -item[1]):
        print(f"{count:>8}  {text}")
    print(f"WRONG: {wrong}" if wrong else "nothing was wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
