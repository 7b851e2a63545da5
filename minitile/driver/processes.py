"""Helper processes: programs that run once (`run`), and processes that stay and answer requests (`Helper`).

What holds for all of them:

* An exception that ends the waiting for one, KeyboardInterrupt above all, ends the process as well. Nothing is asked of
  a process that was interrupted: the next request finds a new one.
* They have a time limit, MINITILE_HELPER_SECONDS (300); one that takes longer is killed.
* What they say is whole or an error: an answer bears the digest of its request, its length and a checksum (serve.py).
* None outlives this process: at its end all are killed, and those that stay look whether their parent is still there.
* A fork has none of its parent's, and one thread at a time uses a `Helper`.

Signal handlers run in the main thread, between any two steps of it. So that none can strike between the start of a
process and the note of it, or between two reads of an answer, all this is done by a short-lived thread, which asks a
flag whether its caller still waits. The caller does nothing but wait. POSIX only (poll, sessions).
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from minitile.driver import serve
from minitile.ir.diagnostics import HostError

T = TypeVar("T")
SECONDS = 300.0
_SLICE_MS = 50  # between two looks at the caller's flag
_DEATH_SECONDS = 5.0  # a killed process is gone by then
_CHUNK = 1 << 16
_MOST_OUTPUT = 1 << 24  # bytes kept of what a program says; of a helper that stays, the last few
_MOST_SAID = 1 << 16


class HelperDied(HostError):
    """The process ended instead of answering. `words` are its last ones on standard error, `code` how it ended, as
    subprocess has it: negative for a signal."""

    def __init__(self, message: str, words: str, code: int) -> None:
        super().__init__(message)
        self.words = words
        self.code = code


class HelperRefused(HostError):
    """The helper answered that it cannot do what was asked."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that ended by itself; its standard output and error."""

    code: int
    output: str
    errors: str


def time_limit() -> float:
    """In seconds. Raises HostError for an environment variable that is no number."""
    text = os.environ.get("MINITILE_HELPER_SECONDS", "")
    try:
        seconds = float(text) if text else SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise HostError(f"MINITILE_HELPER_SECONDS={text!r} is no number of seconds", hint="as in 600")
    return seconds


def run(command: Sequence[str]) -> Finished:
    """Runs a program to its end. Raises OSError where it cannot be started, HelperDied where a signal ended it,
    HostError where it takes too long."""
    limit = time_limit()
    return _apart(lambda call: _run(call, command, limit))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a program's files, for as long as it runs. Raises HostError where none can be written."""
    try:
        with tempfile.TemporaryDirectory(prefix="minitile-") as folder:
            yield Path(folder)
    except OSError as error:
        raise HostError(f"a temporary file cannot be used: {error}", hint="TMPDIR names another folder") from None


# The caller and its thread ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """What a caller and the thread that works for it share."""

    unwanted: bool = False  # the caller waits no longer
    deadline: float = 0.0
    result: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def begin(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    def check(self, what: str) -> None:
        """Raises where the caller waits no longer, or where it is too late."""
        if self.unwanted:
            raise HostError(f"{what} was interrupted")
        if time.monotonic() > self.deadline:
            raise HostError(f"{what} took too long and was ended", hint="MINITILE_HELPER_SECONDS=… allows more seconds")


def _apart(work: Callable[[_Call], T]) -> T:
    """What `work` returns or raises, done by a thread of its own."""
    call = _Call()

    def body() -> None:
        try:
            call.result = work(call)
        except BaseException as error:
            call.error = error
        finally:
            call.done.set()

    started = False
    try:
        try:
            _thread.start_new_thread(body, ())
            started = True
        except RuntimeError:  # no threads: the interpreter is about to end
            body()
        call.done.wait()
    except BaseException:
        call.unwanted = True
        # A second interrupt leaves the rest to the thread.
        call.done.wait(_DEATH_SECONDS if started else 4 * _SLICE_MS / 1000)
        raise
    if call.error is not None:
        raise call.error
    result: T = call.result
    return result


# Processes --------------------------------------------------------------------------------------------------------

_live: set[subprocess.Popen[bytes]] = set()
_starting = threading.Lock()
_ending = False


def _start(command: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
    """In a session of its own: the terminal's Ctrl-C is for this process, which sees to that one."""
    with _starting:
        if _ending:
            raise HostError(f"{command[0]} is not started: this process is about to end")
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        _live.add(process)
    return process


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kills a process and what it started, and closes its pipes; how it ended."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            process.kill()
    return _reap(process)


def _reap(process: subprocess.Popen[bytes]) -> int:
    """Waits for a process that is ending."""
    try:
        process.wait(_DEATH_SECONDS)
    except subprocess.TimeoutExpired:  # in the kernel, and killed as soon as it leaves that
        return -int(signal.SIGKILL)
    finally:
        _live.discard(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    return process.returncode


def _end_all() -> None:
    global _ending
    _ending = True
    with _starting:
        left = list(_live)
    for process in left:
        _end(process)


def _after_fork() -> None:
    """A child has no helpers, and no thread that would free the locks."""
    global _starting
    _starting = threading.Lock()
    for process in _live:
        process.returncode = 0  # not this one's child
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    _live.clear()
    for helper in list(_helpers):
        helper.forget()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _run(call: _Call, command: Sequence[str], seconds: float) -> Finished:
    call.begin(seconds)
    name = Path(command[0]).name
    process = _start(command, subprocess.DEVNULL)
    try:
        said = _read_to_end(call, process, name)
        while process.poll() is None:
            call.check(name)
            time.sleep(0.001)
    except BaseException:
        _end(process)
        raise
    code = _reap(process)
    output, errors = (data.decode(errors="replace") for data in said)
    if code < 0:
        raise HelperDied(f"{name} was ended by {_signal(code)}", errors, code)
    return Finished(code, output, errors)


def _read_to_end(call: _Call, process: subprocess.Popen[bytes], name: str) -> tuple[bytearray, bytearray]:
    """Both outputs of a program; where something that it started still holds them, what came until its own end."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    poll = select.poll()
    for number in said:
        poll.register(number, select.POLLIN)
    still = set(said)
    while still:
        ready = poll.poll(_SLICE_MS)
        for number, _ in ready:
            data = os.read(number, _CHUNK)
            if data:
                said[number] += data[: _MOST_OUTPUT - len(said[number])]
            else:
                poll.unregister(number)
                still.discard(number)
        call.check(name)
        if not ready and process.poll() is not None:
            break
    first, second = said.values()
    return first, second


def _signal(code: int) -> str:
    """Of a negative exit code."""
    try:
        return (
            f"{signal.Signals(-code).name} (was there too little memory?)" if code == -9 else signal.Signals(-code).name
        )
    except ValueError:
        return f"signal {-code}"


# Helpers that stay ------------------------------------------------------------------------------------------------

_helpers: weakref.WeakSet[Helper] = weakref.WeakSet()


class Helper:
    """One process of the service in the file `service` (see serve.py), started at the first request; `name` is for
    errors."""

    def __init__(self, service: Path, name: str) -> None:
        self.service = service
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0
        self.lock = threading.Lock()
        self.last_words = bytearray()  # on standard error, their end
        _helpers.add(self)

    def ask(self, fields: dict[str, Any], data: bytes) -> bytes:
        """The answer to one request. Raises HelperRefused with the helper's reason, HelperDied where it ended instead,
        HostError where it took too long, or said what is no answer."""
        limit = time_limit()
        return _apart(lambda call: self._ask(call, fields, data, limit))

    def started(self) -> subprocess.Popen[bytes]:
        """The running process; one of this very process, not of the one that it was forked from."""
        if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
            self.last_words = bytearray()
            self.owner = os.getpid()
            script = str(Path(serve.__file__))
            command = [sys.executable, "-P", script, str(self.service), str(self.owner)]
            try:
                self.process = _start(command, subprocess.PIPE)
            except OSError as error:
                raise HostError(f"the process for {self.name} cannot be started: {error}") from None
        return self.process

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self.process = self.process, None
        if process is not None and self.owner == os.getpid():
            _end(process)

    def forget(self) -> None:
        """In the child of a fork."""
        self.process = None
        self.lock = threading.Lock()

    def _ask(self, call: _Call, fields: dict[str, Any], data: bytes, seconds: float) -> bytes:
        call.begin(threading.TIMEOUT_MAX)
        lock = self.lock
        while not lock.acquire(timeout=_SLICE_MS / 1000):
            call.check(self.name)
        try:
            call.check(self.name)
            call.begin(seconds)
            if self.process is not None and self._unasked():
                self.stop()
            before = self.process
            try:
                answer = self._answer(call, fields, data)
            except HelperDied as error:
                if before is None or error.code not in (-signal.SIGKILL, -signal.SIGTERM):
                    raise
                answer = self._answer(call, fields, data)  # it was ended from outside, maybe before it was asked
        finally:
            lock.release()
        if answer[:1] == b"-":
            raise HelperRefused(answer[1:].decode(errors="replace").strip())
        return answer[1:]

    def _answer(self, call: _Call, fields: dict[str, Any], data: bytes) -> bytes:
        self.started()
        try:
            return self._exchange(call, *serve.request(fields, data))
        except BaseException:
            self.stop()
            raise

    def _unasked(self) -> bool:
        """Whether the process has ended, or said something unasked."""
        assert self.process is not None
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _exchange(self, call: _Call, request: bytes, digest: bytes) -> bytes:
        """Writes a request and reads the answer to it, whole and checked."""
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        sink, source = process.stdin.fileno(), process.stdout.fileno()
        errors = -1 if process.stderr is None else process.stderr.fileno()
        os.set_blocking(sink, False)
        poll = select.poll()
        for number in filter(lambda n: n >= 0, (source, errors)):
            poll.register(number, select.POLLIN)
        poll.register(sink, select.POLLOUT)
        left, came, wanted = memoryview(request), bytearray(), serve.HEADER.size
        try:
            while len(came) < wanted:
                for number, _ in poll.poll(_SLICE_MS):
                    if number == sink:
                        left = left[self._write(sink, left) :]
                        if not left:
                            poll.unregister(sink)
                        continue
                    found = os.read(number, _CHUNK)
                    if number == errors:
                        self._hear(found)
                        if not found:
                            poll.unregister(errors)
                        continue
                    if not found:
                        raise self._dead(process)
                    came += found
                    if wanted == serve.HEADER.size <= len(came):
                        wanted += serve.length(bytes(came[:wanted]))
                call.check(self.name)
            if left or len(came) > wanted:
                raise serve.BadFrame("it said more than was asked for")
            header = bytes(came[: serve.HEADER.size])
            found_digest, answer = serve.body(header, bytes(memoryview(came)[serve.HEADER.size :]))
            if found_digest != digest or answer[:1] not in (b"+", b"-"):
                raise serve.BadFrame("it is the answer to another request")
        except BrokenPipeError:
            raise self._dead(process) from None
        except serve.BadFrame as error:
            raise HostError(f"the answer of {self.name} is of no use: {error}") from None
        return answer

    @staticmethod
    def _write(sink: int, data: memoryview) -> int:
        try:
            return os.write(sink, data[:_CHUNK])
        except BlockingIOError:
            return 0

    def _hear(self, data: bytes) -> None:
        self.last_words += data
        del self.last_words[:-_MOST_SAID]

    def _dead(self, process: subprocess.Popen[bytes]) -> HelperDied:
        """The error for a process that closed its pipes: with what it said last."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        if process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)
            with contextlib.suppress(OSError):
                while data := os.read(process.stderr.fileno(), _CHUNK):
                    self._hear(data)
        code = _end(process)
        words = self.last_words.decode(errors="replace")
        how = f"was ended by {_signal(code)}" if code < 0 else f"ended with code {code}"
        return HelperDied(f"the process for {self.name} {how}", words, code)
