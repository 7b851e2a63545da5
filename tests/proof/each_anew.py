"""Contexts in which the prover keeps nothing that it has worked out, and executes nothing at once; and texts to compare
what it finds there with what it finds else.

`python -m tests.proof.each_anew NAME BEGIN END` compares these of the texts by chance `NAME` (by_chance, roles, loops,
async), or of the texts of the tests (tests).

Not switched off, as nothing else computes it: footprints by content (they compare by identity), what is worked out of a
program when it is parsed, what is kept within one call (events that are renamed, the tables of certificates), and that
an access is looked at only if it is by the same instruction or one of both is asynchronous
(test_what_is_superseded).
"""

from __future__ import annotations

import json
import pkgutil
import random
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import pytest

import minitile.proof
from minitile.proof import Answer, Launch, Refused, answer, check, memory, questions, registers, semantics
from minitile.proof.arithmetic import values
from minitile.proof.arithmetic.values import TOP, UNIFORM, Predicate, Value, lanes_of
from minitile.proof.events import Access, Footprint
from minitile.proof.explore import Explorer
from minitile.proof.state import State

_KEPT = type(lru_cache(len))
_OF_MACHINES = ("results", "literals", "rounds_of", "computed", "entries", "counting", "covered")
_OF_MEMORIES = ("unions", "made", "places", "guesses", "met", "barriers")


class Forgetful(dict[Any, Any]):
    """A table in which nothing is found but by what has just been put there."""

    def __contains__(self, key: object) -> bool:
        return False

    def get(self, key: Any, default: Any = None) -> Any:
        return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return Forgetful()


def modules() -> list[types.ModuleType]:
    names = [each.name for each in pkgutil.walk_packages(minitile.proof.__path__, "minitile.proof.")]
    return [import_module(name) for name in names if not name.endswith("__main__")]


def kept() -> list[tuple[types.ModuleType, str, Any]]:
    """Functions of the prover whose results are kept for the whole process, by the modules that name them."""
    return [(each, name, found) for each in modules() for name, found in vars(each).items() if isinstance(found, _KEPT)]


def _truth(self: Any, state: State, value: Value, ask: bool = True) -> Value:
    if not isinstance(value, Predicate):
        return value if value in (0, 1) or value is UNIFORM else TOP
    found = self._truth(state, value, False)
    return found if not ask or found in (0, 1) else self._truth(state, value, True)


def _known(self: Any, state: State, value: Value, mask: int) -> tuple[int, int]:
    truths = [self.truth(state, each, False) for each in lanes_of(value)]
    false, true = (sum(1 << n for n, truth in enumerate(truths) if truth == which) for which in (0, 1))
    return mask & false, mask & true


def _meeting(self: Any, accesses: list[Access], foot: Footprint) -> list[Access]:
    return [each for each in accesses if each.foot.units & foot.units]


def _once(cls: type[Any], content: tuple[Any, ...]) -> Any:
    found = object.__new__(cls)
    for name, each in zip(values._FIELDS[cls], content, strict=True):
        object.__setattr__(found, name, each)
    object.__setattr__(found, "_hash", hash(content))
    return found


def _forgets(patch: pytest.MonkeyPatch, cls: type[Any], names: tuple[str, ...], then: Mapping[str, Any]) -> None:
    begin = cls.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        for name in names:
            assert type(getattr(self, name)) is dict
            setattr(self, name, Forgetful(getattr(self, name)))
        for name, value in then.items():
            setattr(self, name, value)

    patch.setattr(cls, "__init__", init)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Within, all is worked out each time that it is needed."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, found in kept():
            patch.setattr(module, name, found.__wrapped__)
        patch.setattr(values, "_once", _once)
        patch.setattr(registers, "functions", lambda program: [False] * len(program.code))
        patch.setattr(questions.Questions, "tested", questions.Questions.test)
        patch.setattr(questions.Questions, "truth", _truth)
        patch.setattr(questions.Questions, "known", _known)
        patch.setattr(memory.Memory, "meeting", _meeting)
        patch.setattr(Access, "named", lambda self, event, fence: replace(self, id=event, fence=fence))
        patch.setattr(Access, "over", lambda self, foot: replace(self, foot=foot))
        _forgets(patch, semantics.Machine, _OF_MACHINES, {"tokens": True})
        _forgets(patch, memory.Memory, _OF_MEMORIES, {})
        _forgets(patch, Explorer, ("_lowered",), {})
        yield


@contextmanager
def nothing_at_once() -> Iterator[None]:
    """Within, no blocks of arithmetic and no bursts of accesses are executed as one."""

    def nothing(program: Any, *rest: Any) -> list[None]:
        return [None] * len(program.code)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semantics, "blocks", nothing)
        patch.setattr(semantics, "bursts", nothing)
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within, nothing is executed at once, and nothing is worked out once for all."""
    with nothing_at_once(), nothing_kept():
        yield


@contextmanager
def blocks_anew() -> Iterator[None]:
    """Within, blocks and bursts are executed as one, but nothing of them is kept."""
    with pytest.MonkeyPatch.context() as patch:
        _forgets(patch, semantics.Machine, ("left", "spread"), {})
        yield


@contextmanager
def few_objects(most: int = 64) -> Iterator[None]:
    """Within, there are often several objects of one content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "MOST_ONCE", most)
        values._ONCE.clear()
        yield


def found(text: str, launch: Launch, states: int = 100, seconds: float = 60.0) -> tuple[Any, ...]:
    """All that is said of a text, but how long it took."""
    try:
        said = answer(text, launch, most_states=states, seconds=seconds)
    except Exception as error:
        return "error", 0, repr(error), 0, "", ""
    return (*summary(said), json.dumps(said.certificate), repr((said.steps, said.asked, said.residues)))


def summary(said: Answer) -> tuple[Any, ...]:
    return said.verdict, said.line, said.reason, said.states


def differences(texts: list[tuple[str, Launch]], states: int = 100, seconds: float = 60.0) -> list[tuple[int, str]]:
    """Which texts are judged in another way where nothing is kept, and how; in another order, and with other objects.
    Executed one by one, states are at other places within blocks: so only the verdict, and how many there are, is the
    same."""
    out: list[tuple[int, str]] = []
    first = [found(*each, states, seconds) for each in texts]
    order = list(range(len(texts)))
    random.Random(len(texts)).shuffle(order)

    def compare(how: str, same: Callable[[Any, Any], bool]) -> None:
        for n in order:
            again = found(*texts[n], states, seconds)
            late = "more time" in first[n][2] or "more time" in again[2]
            if not late and not same(first[n], again):
                out.append((n, f"{how}: {first[n][:4]}, {again[:4]}"))

    compare("in another order", tuple.__eq__)
    with few_objects():
        compare("with few objects", tuple.__eq__)
    with nothing_kept(), blocks_anew():
        compare("nothing kept", tuple.__eq__)
    with one_by_one():
        compare("one by one", lambda a, b: a[:4] == b[:4])
        for n, each in enumerate(first):
            if each[0] == "proved":
                try:
                    check(json.loads(each[4]), *texts[n], seconds=10 * seconds)
                except Refused as why:
                    out.append((n, f"checked one by one: {why}"))
    return out


@cache
def of_tests() -> list[tuple[str, Launch]]:
    """The small texts of the tests."""
    import tests.proof.conftest  # noqa: F401 (where the examples are)
    from tests.proof import test_asynchronous, test_bursts, test_rounds
    from tests.proof.foreign import test_compilers, test_cuda, test_forms, test_libraries, test_told
    from tests.proof.mutants import _collected
    from tests.proof.test_text import FILLED, HEAD

    out = [(text, Launch(**facts)) for text, facts in _collected()]
    for group in (test_asynchronous.FAULTY, test_asynchronous.SOUND):
        out += [(_whole(HEAD, body, 64), Launch({"T": 128})) for body in group.values()]
    for group in (test_asynchronous.FAULTY_PRODUCTS, test_asynchronous.SOUND_PRODUCTS):
        out += [(_whole(HEAD, FILLED + body, 128), Launch({"T": 128})) for body in group.values()]
    bodies = [body for _, body in test_bursts.CASES + test_bursts.APART] + test_forms.RIGHT
    bodies += [body for body, _ in test_forms.WRONG]
    out += [(_whole(HEAD, body, 64), Launch({"T": 1024})) for body in bodies]
    rounds = [*test_rounds.QUOTIENTS.values(), *(test_rounds.TOGGLES.format(odd) for odd in (0, 1))]
    out += [(test_rounds.whole(body), Launch({"T": 1024}, least={"N": n})) for body in rounds for n in (0, 3, 17)]
    out += [test_told.asked(name) for name in test_told.SOUND]
    out += [test_told.asked(*each) for each in test_told.BROKEN.values()]
    for each in test_libraries.PROGRAMS.values():
        for text in (each.sound, each.broken):
            out.append((text.ptx, Launch(text.boxes, threads=text.threads, shared=text.shared)))
    for name, launch in test_cuda.LAUNCHES.items():
        out.append((test_cuda.read(name), launch))
    for name, old, new, _ in test_cuda.FAULTS:
        out.append((test_cuda.read(name).replace(old, new), test_cuda.LAUNCHES[name]))
    out += [test_compilers.read(each.stem) for each in sorted(test_compilers.FOLDER.glob("*.ptx"))]
    return list({(text, repr(launch)): (text, launch) for text, launch in out}.values())


def _whole(head: str, body: str, threads: int) -> str:
    return head.format(threads=threads, shared=4096) + body + "\n  ret;\n}\n"


def by_chance(name: str, begin: int, end: int) -> list[tuple[str, Launch]]:
    from tests.proof import async_by_chance, by_chance, loops_by_chance, roles_by_chance
    from tests.proof.test_text import HEAD

    seeds = range(begin, end)
    if name == "loops":
        head = HEAD.format(threads=64, shared=8192) + _OF_LOOPS
        return [(head + "\n".join(loops_by_chance.text_of(seed)) + "\n}\n", Launch({})) for seed in seeds]
    module = {"by_chance": by_chance, "roles": roles_by_chance, "async": async_by_chance}[name]
    launch = Launch({"T": async_by_chance.PART}) if name == "async" else module.LAUNCH
    return [(module.text_of(seed), launch) for seed in seeds]


_OF_LOOPS = "mov.b32 %n, %r9; mov.b32 %m, 3; mov.b32 %d, 2; mad.lo.u32 %s, %r0, 4, %r1; mov.b32 %e, 40;\n"


def main() -> None:
    name, begin, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    total: Counter[str] = Counter()
    step = 50
    for first in range(begin, end, step):
        last = min(first + step, end)
        texts = of_tests()[first:last] if name == "tests" else by_chance(name, first, last)
        if not texts:
            break
        total.update(found(*each, 60, 10.0)[0] for each in texts)
        for n, how in differences(texts, 60, 10.0):
            total["differ"] += 1
            print(first + n, how, flush=True)
        print(name, last, dict(total), flush=True)


if __name__ == "__main__":
    main()
