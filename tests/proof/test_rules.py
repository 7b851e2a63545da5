"""Every rule of the prover and the checker is needed: without it some text, or damaged certificate, of the tests gets
another verdict (SPARE: but for these, which guard the search or stand twice).

A mutant is the package with one `raise` gone, or with one operand gone from the condition of one.

`python -m tests.proof.test_rules [MODULE…]` prints how many mutants there are, and which survive.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import minitile.proof
from minitile.proof import Launch, answer
from tests.proof import mutant_texts, mutants, test_text

HOME = Path(minitile.proof.__file__).parent
RULES = tuple(
    name
    for path in sorted(HOME.rglob("*.py"))
    if "raise " in path.read_text()
    for name in [".".join(path.relative_to(HOME).with_suffix("").parts)]
    if name not in ("answer", "certificate", "encoding")  # what is not trusted
)
_NUMBER = itertools.count()
Mutation = Callable[[ast.Module], None]


def raises(name: str) -> Iterator[tuple[str, Mutation]]:
    """For each `raise` of a module: what it says, and what takes it away."""
    tree = ast.parse((HOME / f"{name.replace('.', '/')}.py").read_text())
    for number, node in enumerate(_raises(tree)):
        yield f"{name}.py: {ast.unparse(node)}", lambda tree, number=number: _without_raise(tree, number)
    for number, node in enumerate(_guards(tree)):
        for operand in range(len(node.test.values)):  # type: ignore[attr-defined]
            what = f"{name}.py: {ast.unparse(node.body[0])}, without {ast.unparse(node.test.values[operand])}"  # type: ignore[attr-defined]
            yield what, lambda tree, number=number, operand=operand: _without_operand(tree, number, operand)


def _raises(tree: ast.Module) -> list[ast.Raise]:
    return [each for each in ast.walk(tree) if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)]


def _guards(tree: ast.Module) -> list[ast.If]:
    found = (each for each in ast.walk(tree) if isinstance(each, ast.If) and isinstance(each.body[0], ast.Raise))
    return [each for each in found if isinstance(each.test, ast.BoolOp)]


def _without_raise(tree: ast.Module, number: int) -> None:
    gone = _raises(tree)[number]
    for each in ast.walk(tree):
        for body in (getattr(each, part, None) for part in ("body", "orelse")):
            if isinstance(body, list) and gone in body:
                body[body.index(gone)] = ast.copy_location(ast.Pass(), gone)


def _without_operand(tree: ast.Module, number: int, operand: int) -> None:
    guard = _guards(tree)[number]
    test: Any = guard.test
    del test.values[operand]
    if len(test.values) == 1:
        guard.test = test.values[0]


def mutant(name: str, mutation: Mutation) -> Any:
    """The package with a module changed, imported under a name of its own."""
    package = f"mutant{next(_NUMBER)}_proof"
    for path in sorted(HOME.rglob("*.py")):
        text = path.read_text().replace("minitile.proof", package)
        tree = ast.parse(text)
        module = ".".join(path.relative_to(HOME).with_suffix("").parts)
        if module == name:
            mutation(tree)
        code = compile(ast.fix_missing_locations(tree), str(path), "exec")
        _SOURCES[f"{package}.{module}".removesuffix(".__init__")] = code
    return importlib.import_module(package)


_SOURCES: dict[str, Any] = {}


class _Loader:
    """Finds mutants' modules in _SOURCES."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _SOURCES:
            return None
        is_package = any(each.startswith(f"{name}.") for each in _SOURCES)
        return importlib.util.spec_from_loader(name, self, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(_SOURCES[module.__name__], module.__dict__)


def texts() -> list[tuple[str, str, Launch]]:
    """(text, why, launch): "" for what is proved."""
    found = [(body, "", 64) for body in test_text.test_sound.pytestmark[0].args[1]]
    for test in (test_text.test_refused, test_text.test_each_rule):
        found += [(body, why, 64) for body, why in test.pytestmark[0].args[1]]
    found += [(test_text.FILLED + body, why, 128) for body, why in test_text.WARPGROUP]
    whole = [(text.replace(old, new, 1), why, 1024) for text, old, new, why in test_text.READ]
    whole += mutant_texts.ALL
    whole += [
        (
            test_text.HEAD.format(threads=threads, shared=4096) + body + "\n  ret;\n}\n",
            why,
            256 if "bulk_group" in body else 1024,
        )
        for body, why, threads in found
    ]
    return [(text, why, Launch({"T": box})) for text, why, box in whole] + mutant_texts.LAUNCHED


def kills(package: Any, text: str, why: str, launch: Launch) -> bool:
    try:
        package.prove(text, package.Launch(**vars(launch)), most_states=300, seconds=5.0)
    except package.Refused as found:
        return not why or why not in str(found)
    except Exception:
        return True  # no proof, and not what it should say
    return bool(why)


@lru_cache
def others() -> list[mutants.Text]:
    """Texts of the other tests, and damaged certificates."""
    known = {text for text, _, _ in texts()}
    return [each for each in mutants.texts() if each.text not in known]


def takes_a_launch_that_is_none(package: Any) -> bool:
    from tests.proof.test_certificate import LAUNCHES

    module = sys.modules[f"{package.__name__}.check"]
    sound = module.facts(package.Launch({}))
    for change in LAUNCHES:
        try:
            module.launch_of({"launch": sound | change})
        except package.Refused:
            continue
        return True
    return False


def is_killed_by_others(package: Any, name: str) -> bool:
    if name == "check" and takes_a_launch_that_is_none(package):
        return True
    for each in others():
        if each.damage and name not in ("check", "explore", "encoding"):
            continue
        try:
            why = mutants.judged(package, each.text, each.launch, each.damage)
        except Exception:
            return True
        if bool(why) == each.proved:
            return True
    return False


def survivors(name: str, only: Container[str] | None = None) -> list[str]:
    """`only`: of these mutants."""
    found = []
    every = texts()
    for what, mutation in raises(name):
        if only is not None and what not in only:
            continue
        package = mutant(name, mutation)
        first = sorted(every, key=lambda each: not each[1] or each[1] not in what)
        if not any(kills(package, *each) for each in first) and not is_killed_by_others(package, name):
            found.append(what)
        for module in [each for each in sys.modules if each.startswith(package.__name__)]:
            del sys.modules[module]
    return found


@pytest.fixture(autouse=True)
def loader() -> Iterator[None]:
    sys.meta_path.append(_Loader())  # type: ignore[arg-type]
    yield
    sys.meta_path.pop()


@pytest.mark.parametrize(("text", "why", "box"), mutant_texts.ALL)
def test_texts_of_mutants(text, why, box):
    """What is found of the texts that were added for mutants."""
    found = answer(text, Launch({"T": box}), most_states=300)
    assert found.verdict == "proved" if not why else why in f"{found.verdict}: {found.reason}"


@pytest.mark.parametrize(("text", "why", "launch"), mutant_texts.LAUNCHED)
def test_launches_of_mutants(text, why, launch):
    found = answer(text, launch, most_states=300)
    assert found.verdict == "proved" if not why else why in found.reason


# What survives all the same: (module, what it says; $: at the end), and why.
SPARE = {
    ("barriers", "without phase == barrier.index - 1"): "no other wait is kept",
    (
        "divergence",
        "do not meet again",
    ): "each way leads to the last `ret`: loops that nothing leaves are refused before",
    ("explore", "cases of residues"): "ends the search",
    ("explore", "more time than is allowed"): "ends the search",
    ("explore", "without steps % 1024 == 0"): "ends the search",
    ("explore", "runs on without a question"): "ends the search",
    ("explore", "states')"): "ends the search",
    (
        "explore",
        "a bound that hangs on a residue",
    ): "begins the search anew before many states, rather than behind them",
    ("explore", "raise, without not _added"): "begins the search anew",
    ("explore", "a question that is not asked again"): "a shift changes no question",
    ("reading", "{code.strip()}')$"): "text.py takes no .loc and .file with more on their lines",
    ("reading", "without not place"): "as above",
    ("state", "no set has all bits"): "a mask below 0 would be a mistake of the prover's own, and a loop for ever",
    ("semantics", "without not (_ARRIVE.fullmatch(op) or _WAIT.fullmatch(op))"): "said again behind it",
    ("semantics", "a product by some lanes of a warp'), without lanes != ALL"): "whole warps execute it in a block",
    ("text", "one counter of two loops"): "loops that share a register are given counters of their own",
    ("semantics", "without at % align"): "memory.span says it again",
    ("semantics", "without warp.stack"): "a branch that lanes take differently holds no end",
    ("memory", "without state.mbarriers"): "where there are none, none is touched",
    ("memory", "% self.unit"): "a unit divides all sizes and alignments of a text",
    (
        "memory",
        "need not be complete'), without asynchronous",
    ): "who knows of an access's fence knows that it is complete: the fence is missing too",
    ("memory", "need not have drawn from it'), without atomic"): "what adds writes, so that both are atomic",
}


def is_spare(module: str, what: str) -> bool:
    return any(module == name and part in f"{what}$" for name, part in SPARE)


@pytest.mark.slow
@pytest.mark.parametrize("module", RULES)
def test_each_rule_is_needed(module):
    assert [what for what in survivors(module) if not is_spare(module, what)] == []


def test_a_mutant_is_told_from_the_original():
    (what, mutation), *_ = raises("barriers")
    package = mutant("barriers", mutation)
    assert "need not know" in what
    assert any(kills(package, *each) for each in texts() if each[1] and each[1] in what)
    unchanged = mutant("barriers", lambda tree: None)
    assert not any(kills(unchanged, *each) for each in texts()[::20])
    assert not takes_a_launch_that_is_none(unchanged)


if __name__ == "__main__":
    import tests.proof.conftest  # noqa: F401 (where the examples are)

    sys.meta_path.append(_Loader())  # type: ignore[arg-type]
    for each in sys.argv[1:] or RULES:
        print(each, sum(1 for _ in raises(each)), flush=True)
        for what in survivors(each):
            print(what, "(spare)" if is_spare(each, what) else "", flush=True)
