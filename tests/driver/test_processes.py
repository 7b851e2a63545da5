"""Helper processes: the answer to this very request or an error, when a side crashes, hangs, lies, interrupts or
forks."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from minitile.driver import processes, serve
from minitile.driver.processes import Helper, HelperDied, HelperRefused, run
from minitile.ir.diagnostics import HostError

SERVICE = Path(__file__).with_name("service.py")


@pytest.fixture(autouse=True)
def interrupts():
    """As in a terminal: a shell without one starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def helper():
    made = Helper(SERVICE, "the test")
    yield made
    made.stop()
    assert made.process is None


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process ends within that time (a zombie that this process cannot reap has ended)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_answers(helper):
    assert helper.ask({}, b"abc") == b"cba"
    first = helper.process.pid
    assert helper.ask({"times": 1 << 20}, b"abc") == b"cba" * (1 << 20), "more than a pipe holds"
    large = os.urandom(1 << 20)
    assert helper.ask({}, large) == large[::-1]
    with pytest.raises(HelperRefused, match="not today"):
        helper.ask({"refuse": "not today"}, b"")
    assert helper.ask({}, b"") == b""
    assert helper.process.pid == first, "one process for all"
    assert b"said on standard output" in helper.last_words


def test_a_death_is_an_error_and_the_next_one_is_served(helper):
    with pytest.raises(HelperDied, match="ended with code 3") as caught:
        helper.ask({"die": 3}, b"abc")
    assert "an error: no more" in caught.value.words
    assert helper.ask({}, b"abc") == b"cba"
    os.kill(helper.process.pid, signal.SIGKILL)
    assert helper.ask({}, b"abc") == b"cba", "one that died between two requests is replaced"


def test_the_time_limit(helper, monkeypatch):
    helper.ask({}, b"")
    pid = helper.process.pid
    monkeypatch.setenv("MINITILE_HELPER_SECONDS", "0.3")
    start = time.monotonic()
    with pytest.raises(HostError, match="took too long") as caught:
        helper.ask({"sleep": 60}, b"abc")
    assert time.monotonic() - start < 5
    assert "MINITILE_HELPER_SECONDS" in caught.value.hint
    assert gone(pid)
    monkeypatch.delenv("MINITILE_HELPER_SECONDS")
    assert helper.ask({}, b"abc") == b"cba"


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf"])
def test_a_time_limit_that_is_none(helper, monkeypatch, text):
    monkeypatch.setenv("MINITILE_HELPER_SECONDS", text)
    with pytest.raises(HostError, match="no number of seconds"):
        helper.ask({}, b"")


def interrupt_after(seconds: float, times: int = 1) -> None:
    def send() -> None:
        for _ in range(times):
            time.sleep(seconds)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=send).start()


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_an_interrupt_ends_the_process(helper, stopped):
    """Also one that has been stopped, and would answer when it goes on."""
    helper.ask({}, b"")
    pid = helper.process.pid
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    interrupt_after(0.2)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        helper.ask({"sleep": 0 if stopped else 60}, b"first")
    assert time.monotonic() - start < 5
    assert gone(pid)
    assert helper.ask({}, b"second") == b"dnoces"


def test_a_second_interrupt_does_not_hang(helper, monkeypatch):
    """It comes while the first one is still being seen to."""
    helper.ask({}, b"")
    pid, end = helper.process.pid, processes._end
    monkeypatch.setattr(processes, "_end", lambda process: time.sleep(0.5) or end(process))
    interrupt_after(0.2, times=2)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        helper.ask({"sleep": 60}, b"first")
    assert time.monotonic() - start < 0.6, "it did not wait for the end of the process"
    assert helper.ask({}, b"second") == b"dnoces"
    assert gone(pid)


def test_threads_are_served_one_at_a_time(helper):
    wrong = []

    def work(number: int) -> None:
        for i in range(25):
            data = b"%d of %d" % (i, number)
            if helper.ask({}, data) != data[::-1]:
                wrong.append(data)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _ask_in_child(helper, found):
    found.put((helper.ask({}, b"child"), helper.process.pid))


def test_a_fork_has_a_helper_of_its_own(helper):
    """Forked while another thread waits for an answer, so that the lock is taken."""
    waiting = threading.Thread(target=helper.ask, args=({"sleep": 1}, b"abc"))
    waiting.start()
    time.sleep(0.5)
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    child = context.Process(target=_ask_in_child, args=(helper, found))
    child.start()
    answer, pid = found.get(timeout=20)
    child.join(20)
    waiting.join()
    assert answer == b"dlihc"
    assert pid != helper.process.pid
    assert helper.ask({}, b"abc") == b"cba"
    assert gone(pid), "the child's helper ends with it"


OWNER = """
import sys, threading
from pathlib import Path
from minitile.driver.processes import Helper, run
helper = Helper(Path(sys.argv[1]), "the test")
helper.ask({}, b"")
print(helper.process.pid, flush=True)
if sys.argv[2] == "exit":
    threading.Thread(target=helper.ask, args=({"sleep": 60}, b""), daemon=True).start()
    threading.Event().wait(0.3)
else:
    helper.ask({"sleep": 60}, b"")
"""


@pytest.mark.parametrize("how", ["exit", "SIGKILL", "SIGTERM", "SIGINT"])
def test_no_process_is_left_behind(how):
    """By an owner that ends, or is killed, while an answer is due."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, SERVICE, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pid = int(owner.stdout.readline())
    if how != "exit":
        time.sleep(0.3)
        owner.send_signal(getattr(signal, how))
    owner.communicate(timeout=20)
    assert gone(pid)


# A process that lies ------------------------------------------------------------------------------------------------

STUB = """
import hashlib, os, sys
sys.path.insert(0, {path!r})
import serve
header = sys.stdin.buffer.read(serve.HEADER.size)
digest, data = serve.body(header, sys.stdin.buffer.read(serve.length(header)))
right = serve.frame(digest, b"+right")
other = serve.frame(hashlib.sha256(b"other").digest(), b"+wrong")
sys.stdout.buffer.write({answer})
sys.stdout.buffer.flush()
{then}
"""


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        ("other", "sys.stdin.read()"),
        ("right[:-1]", ""),
        ("right[:40]", ""),
        ("b''", ""),
        ("right[:-1] + b'x'", "sys.stdin.read()"),
        ("b'x' + right", "sys.stdin.read()"),
        ("right + b'x'", "sys.stdin.read()"),
        ("other + right", "sys.stdin.read()"),
        ("serve.frame(digest, b'')", "sys.stdin.read()"),
        ("serve.frame(digest, b'?x')", "sys.stdin.read()"),
        ("serve.HEADER.pack(serve.MAGIC, digest, digest, 1 << 62)", "sys.stdin.read()"),
        ("right[:50]", "os.kill(os.getpid(), 11)"),
    ],
)
def test_what_is_not_the_whole_answer_is_an_error(helper, answer, then):
    code = STUB.format(path=str(Path(serve.__file__).parent), answer=answer, then=then)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    helper.process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    helper.owner = os.getpid()
    pid = helper.process.pid
    with pytest.raises(HostError):
        helper.ask({}, b"abc")
    assert gone(pid)
    assert helper.ask({}, b"abc") == b"cba"


def test_one_that_was_killed_midway_is_replaced_once(helper):
    code = STUB.format(path=str(Path(serve.__file__).parent), answer="right[:50]", then="os.kill(os.getpid(), 9)")
    helper.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    helper.owner = os.getpid()
    assert helper.ask({}, b"abc") == b"cba"
    helper.stop()
    with pytest.raises(HelperDied, match="SIGKILL"):
        helper.ask({"kill": 9}, b"")


def test_the_stub_can_be_right(helper):
    code = STUB.format(path=str(Path(serve.__file__).parent), answer="right", then="")
    helper.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    helper.owner = os.getpid()
    assert helper.ask({}, b"abc") == b"right"


def test_an_answer_that_was_left_in_the_pipe_is_nobodys(helper):
    """Whatever stands in the pipe before a request is made cannot be its answer."""
    helper.ask({}, b"")
    frame, digest = serve.request({}, b"left")
    assert hashlib.sha256(frame[serve.HEADER.size :]).digest() == digest
    os.write(helper.process.stdin.fileno(), frame)
    time.sleep(0.3)
    assert helper.ask({}, b"abc") == b"cba"


# Programs that run once ---------------------------------------------------------------------------------------------


def test_a_program():
    before = set(processes._live)  # the workers of other tests
    done = run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.code, done.output, done.errors) == (3, "out\n", "err\n")
    assert len(run(["/bin/sh", "-c", "yes | head -c 3000000"]).output) == 3_000_000
    with pytest.raises(OSError, match="nowhere"):
        run(["/nowhere/program"])
    assert set(processes._live) == before


def test_a_program_that_is_killed():
    with pytest.raises(HelperDied, match="sh was ended by SIGKILL"):
        run(["/bin/sh", "-c", "kill -9 $$"])


CHILDREN = "sleep 60 & echo $! > {}; wait"


def test_what_takes_too_long_ends_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITILE_HELPER_SECONDS", "0.5")
    with pytest.raises(HostError, match="sh took too long"):
        run(["/bin/sh", "-c", CHILDREN.format(tmp_path / "pid")])
    assert gone(int((tmp_path / "pid").read_text()))


def test_an_interrupted_program_ends_with_its_children(tmp_path):
    before = set(processes._live)
    interrupt_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        run(["/bin/sh", "-c", CHILDREN.format(tmp_path / "pid")])
    assert gone(int((tmp_path / "pid").read_text()))
    assert set(processes._live) == before


def test_something_that_a_program_left_running_is_not_waited_for():
    start = time.monotonic()
    done = run(["/bin/sh", "-c", "echo done; sleep 3 &"])
    assert done.output == "done\n"
    assert time.monotonic() - start < 2.5
