"""Certificates are accepted for their own text and launch, and for nothing else; damaged ones are not accepted."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from minitile.proof import Launch, Refused, certificate, check
from minitile.proof.arithmetic.values import Affine
from minitile.proof.check import launch_of
from minitile.proof.explore import cyclic
from minitile.proof.state import Warp
from tests.proof.test_examples import text_and_launch
from tests.proof.test_text import HEAD, LOOP


@pytest.fixture(scope="module")
def small() -> tuple[str, Launch, dict[str, Any]]:
    text, launch = text_and_launch("gemm")
    return text, launch, json.loads(json.dumps(certificate(text, launch)))


def accepted(data: Any, text: str, launch: Launch) -> bool:
    try:
        check(data, text, launch)
    except Refused:
        return False
    return True


def test_is_accepted(small):
    text, launch, data = small
    assert check(data, text, launch) == len(data["cases"][0]) > 10


def test_is_of_one_text_and_launch(small):
    text, launch, data = small
    assert not accepted(data, text.replace("wait_group.sync.aligned 1", "wait_group.sync.aligned 2"), launch)
    boxes = {name: size // 2 for name, size in launch.boxes.items()}
    assert not accepted(data, text, Launch(boxes, launch.threads, launch.shared, launch.divides))


def test_of_a_broken_text_with_the_hash_set_right(small):
    """The states of a sound text do not carry a broken one."""
    from minitile.proof.check import digest

    text, launch, data = small
    broken = text.replace("wait_group.sync.aligned 1", "wait_group.sync.aligned 2")
    assert broken != text
    assert not accepted(data | {"text": digest(broken)}, broken, launch)


def test_numbers_of_another_type():
    """5.0 is equal to 5, but nothing is known of a register that holds it: a test of it could go either way."""
    from minitile.proof.check import digest

    def text(number: int) -> str:
        rest = f"setp.eq.u32 %p5, %r10, {number}; @%p5 st.shared.u32 [%r2], 1; ld.shared.u32 %r4, [%r2];"
        body = "mov.u32 %r10, 5; " + LOOP.format("bar.sync 0;") + rest
        return HEAD.format(threads=64, shared=4096) + body + "\n  ret;\n}\n"

    def changed(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: changed(each) for key, each in data.items()}
        if data == ["%r10", 5]:
            return ["%r10", 5.0]
        return [changed(each) for each in data] if isinstance(data, list) else data

    sound = json.loads(json.dumps(certificate(text(5), Launch({}))))
    assert accepted(sound, text(5), Launch({}))
    assert json.dumps(changed(sound)) != json.dumps(sound)
    assert not accepted(changed(sound) | {"text": digest(text(3))}, text(3), Launch({}))


def test_truths_are_no_numbers():
    """True is equal to 1, but reads another way, and there is one object for both: the next proof would have it."""
    from minitile.proof.encoding import Decoder

    decoder = Decoder([], None)  # type: ignore[arg-type]
    for since in (0, False):
        affine, counter = (
            decoder(each)
            for each in (
                {"Affine": [[[["param", "of truths"], True]], False]},
                {"Counter": [[[[["param", "of truths"], True]], [], False], True, since]},
            )
        )
        assert repr(affine) == repr(Affine(((("param", "of truths"), 1),), 0))
        assert repr(counter) == "Counter(base=(((('param', 'of truths'), 1),), (), 0), value=1, since=False)"
    assert type(decoder([True])[0]) is int


def test_states_share_nothing_that_changes():
    """What stands in the table once is of each state its own: names of events are given to one after the other."""
    from minitile.proof.encoding import Decoder

    decoder = Decoder([{"d": []}, {"Warp": [0, 0, {"t": 0}]}], None)  # type: ignore[arg-type]
    one, other = (decoder.state({"State": [{"l": [{"t": 1}]}, {"t": 0}]}) for _ in range(2))
    assert one.mbarriers is not other.mbarriers
    assert one.warps[0].registers is not other.warps[0].registers


@pytest.mark.parametrize("place", [0, 3, -1])
def test_each_state_is_needed(small, place):
    text, launch, data = small
    data = copy.deepcopy(data)
    del data["cases"][0][place]
    assert not accepted(data, text, launch)


@pytest.mark.parametrize("damage", [{"cases": []}, {"cases": [[]]}, {"moduli": [[None, 0]]}, {"together": []}])
def test_a_part_is_missing(small, damage):
    text, launch, data = small
    assert not accepted(data | damage, text, launch)


def damaged(data: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A whole number of some state, or of the table of what states share, is another; or a warp of some state is as in
    another state."""
    data = copy.deepcopy(data)
    part = rng.choice(["state", "table", "warp"])
    states = data["cases"][0]
    if part == "warp":
        here, there = (state["State"][0]["l"] for state in rng.sample(states, 2))
        warp = rng.randrange(len(here))
        if here[warp] == there[warp]:
            return damaged(data, rng)
        here[warp] = there[warp]
        return data
    node: Any = rng.choice(states) if part == "state" else data["table"]
    while True:
        inner = node if isinstance(node, list) else list(node.values()) if isinstance(node, dict) else []
        numbers = [n for n, each in enumerate(inner) if type(each) is int]
        deeper = [each for each in inner if isinstance(each, (list, dict)) and each]
        if isinstance(node, list) and numbers and (not deeper or rng.random() < 0.5):
            node[rng.choice(numbers)] += rng.choice([1, 2, -1])
            return data
        if not deeper:
            return damaged(data, rng)
        node = rng.choice(deeper)


def attack(small: tuple[str, Launch, dict[str, Any]], count: int) -> int:
    """So many damaged certificates are refused. What is accepted must say the same once read (a name of an event, say,
    or what no state has) and does not count: how many these are."""
    text, launch, data = small
    same = 0
    for seed in itertools.count():
        changed = damaged(data, random.Random(seed))
        if accepted(changed, text, launch):
            assert same_states(changed, data, text, launch), seed
            same += 1
        if seed + 1 - same == count:
            break
    return same


def same_states(a: dict[str, Any], b: dict[str, Any], text: str, launch: Launch) -> bool:
    from minitile.proof.encoding import Decoder
    from minitile.proof.explore import Explorer
    from minitile.proof.text import parse

    explorer = Explorer(parse(text, launch), launch, frozenset(a["together"]), {}, 0, 60)
    sets = []
    for each in (a, b):
        decoder = Decoder(each["table"], explorer.machine.memory)
        sets.append({explorer.normalise(decoder.state(state)) for state in each["cases"][0]})
    return sets[0] == sets[1]


def test_damaged(small):
    assert attack(small, 8) < 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_damaged_many(name):
    text, launch = text_and_launch(name)
    data = json.loads(json.dumps(certificate(text, launch)))
    assert attack((text, launch, data), 200) < 60


def without_a_warp(data: dict[str, Any]) -> None:
    state = data["cases"][0][0]["State"]
    state[0]["l"].pop()


def with_warps_swapped(data: dict[str, Any]) -> None:
    warps = data["cases"][0][0]["State"][0]["l"]
    warps[0], warps[1] = warps[1], warps[0]


def with_an_end(data: dict[str, Any]) -> None:
    """A state in which all warps are done."""
    state = copy.deepcopy(data["cases"][0][0])
    for warp in state["State"][0]["l"]:
        done = [field.name for field in fields(Warp)].index("done")
        warp["Warp"][done] = True
    data["cases"][0].append(state)


def with_a_warp_behind_the_end(data: dict[str, Any]) -> None:
    state = copy.deepcopy(data["cases"][0][0])
    pc = [field.name for field in fields(Warp)].index("pc")
    state["State"][0]["l"][0]["Warp"][pc] = 1 << 20
    data["cases"][0].append(state)


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda data: data.update(format=1), "another format"),
    "text": (lambda data: data.update(text="0"), "of another text"),
    "launch": (lambda data: data["launch"].update(threads=64), "of another launch"),
    "lines": (lambda data: data.update(lines=[]), "lines"),
    "together before the text": (lambda data: data.update(together=[-1], lines=[0]), "lines"),
    "together behind the text": (lambda data: data.update(together=[1 << 20]), "IndexError"),
    "a case too many": (lambda data: data["cases"].append([]), "not all cases"),
    "no case": (lambda data: data.update(cases=[]), "not all cases"),
    "no table": (lambda data: data.update(table=[]), "IndexError"),
    "no moduli": (lambda data: data.update(moduli=None), "TypeError"),
    "moduli twice": (lambda data: data.update(moduli=[[None, 2], [None, 2]]), "moduli"),
    "more cases than fit into memory": (lambda data: data.update(moduli=[[["param", "K"], 1 << 40]]), "not all cases"),
    "a modulus of 0": (lambda data: data.update(moduli=[[None, 0]]), "moduli"),
    "a warp is missing": (without_a_warp, "warps"),
    "warps are swapped": (with_warps_swapped, "warps"),
    "something else than a state": (lambda data: data["cases"][0].append(0), "not a state"),
    "a state of nothing": (lambda data: data["cases"][0].append({"State": []}), "TypeError"),
    "an end": (with_an_end, "asks nothing"),
    "a warp behind the end": (with_a_warp_behind_the_end, "IndexError"),
    "a state is missing": (lambda data: data["cases"][0].pop(3), "not listed"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_rule_of_the_checker(small, damage):
    """For each rule a certificate that only this rule refuses."""
    text, launch, data = small
    data = copy.deepcopy(data)
    change, why = DAMAGES[damage]
    change(data)
    with pytest.raises(Refused, match=why):
        check(data, text, launch)


# What a certificate may say that is no launch.
LAUNCHES: list[dict[str, Any]] = [
    {"grid": {"x": ["power", 2, 3]}},
    {"grid": 1},
    {"threads": "many"},
    {"boxes": None},
]


@pytest.mark.parametrize("change", LAUNCHES)
def test_a_launch_that_is_none(small, change):
    _, launch, data = small
    assert launch_of(data) == launch
    with pytest.raises(Refused, match="not a certificate"):
        launch_of(data | {"launch": data["launch"] | change})


def test_a_cycle():
    assert cyclic({0: [1], 1: [2], 2: [1]})
    assert not cyclic({0: [1, 2], 1: [2], 3: [0]})
