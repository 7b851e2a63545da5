"""Mutants of the prover and the checker: one operator, constant or statement of the trusted modules is another.

Each must be killed: some text, or damaged certificate, of the tests must get another verdict. What survives is
equivalent, only refuses more, or shows a rule that no test needs.

`python -m tests.proof.mutants FILE [COUNT [SHARD/SHARDS]]` runs COUNT of them (a sample, always the same), appends what
it finds to FILE, and leaves out what FILE holds already.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import json
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import minitile.proof

HOME = Path(minitile.proof.__file__).parent
TRUSTED = tuple(
    ".".join(path.relative_to(HOME).with_suffix("").parts)
    for path in sorted(HOME.rglob("*.py"))
    if path.stem not in ("witness", "answer", "certificate", "encoding")  # what is not trusted
    and path.parent / path.name not in (HOME / "__init__.py", HOME / "launches" / "__init__.py")  # nothing but names
)
PACKAGE = "mutant_of_proof"
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    """The `change`-th change of the `node`-th node of a module's tree."""

    module: str
    node: int
    change: int
    line: int
    what: str

    @property
    def key(self) -> str:
        return f"{self.module}.py:{self.line}: {self.what}"


def changes(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """What a node may become."""
    out: list[tuple[str, ast.AST]] = []

    def become(**fields: Any) -> None:
        new = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        out.append((f"{ast.unparse(node).splitlines()[0][:70]} -> {ast.unparse(new).splitlines()[0][:70]}", new))

    match node:
        case ast.If() | ast.IfExp() | ast.While():
            become(test=ast.UnaryOp(ast.Not(), node.test))
        case ast.BoolOp(op=op, values=values):
            become(op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for n in range(len(values) if len(values) > 1 else 0):
                become(values=[*values[:n], *values[n + 1 :]])
        case ast.Compare(ops=[op], comparators=[_]):
            for other in COMPARISONS[type(op)]:
                become(ops=[other()])
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            become(op=ARITHMETIC[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            out.append((f"{ast.unparse(node)[:70]} -> {ast.unparse(operand)[:70]}", operand))
        case ast.Constant(value=bool(value)):
            become(value=not value)
        case ast.Constant(value=int(value)):
            become(value=value + 1)
            become(value=value - 1)
        case ast.Raise(exc=ast.Call()) | ast.AugAssign():
            out.append((f"{ast.unparse(node)[:90]} -> pass", ast.Pass()))
        case ast.Expr(value=ast.Call()):
            out.append((f"{ast.unparse(node)[:90]} -> pass", ast.Pass()))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            become(value=ast.Constant(None))
    return out


@lru_cache
def source(module: str) -> str:
    return (HOME / f"{module.replace('.', '/')}.py").read_text().replace("minitile.proof", PACKAGE)


def _nodes(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def every() -> Iterator[Mutant]:
    for module in TRUSTED:
        for number, node in enumerate(_nodes(ast.parse(source(module)))):
            for change, (what, _) in enumerate(changes(node)):
                yield Mutant(module, number, change, node.lineno, what)  # type: ignore[attr-defined]


SHARE = {"check": 5, "barriers": 4, "memory": 4, "state": 3, "events": 3}  # how much more often than others


def sample(count: int) -> list[Mutant]:
    rng = random.Random(0)
    found = [(rng.random() ** (1 / SHARE.get(each.module, 1)), each) for each in every()]
    return [each for _, each in sorted(found, key=lambda one: -one[0])[:count]]


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


@lru_cache
def _compiled(module: str) -> Any:
    return compile(source(module), f"{module}.py", "exec")


class _Loader:
    """Finds the package, with one module changed."""

    def __init__(self, module: str = "", code: Any = None) -> None:
        self.module, self.code = module, code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != PACKAGE:
            return None
        is_package = (HOME / name.partition(".")[2].replace(".", "/")).is_dir()
        return importlib.util.spec_from_loader(name, self, is_package=is_package)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        name = module.__name__.partition(".")[2] or "__init__"
        name = f"{name}.__init__" if (HOME / name).is_dir() else name
        exec(self.code if name == self.module else _compiled(name), module.__dict__)


def package(mutant: Mutant | None) -> Any:
    """minitile.proof as a mutant of it, under another name; only one at a time."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Loader)]
    loader = _Loader()
    if mutant is not None:
        tree = ast.parse(source(mutant.module))
        node = _nodes(tree)[mutant.node]
        new = changes(node)[mutant.change][1]
        tree = ast.fix_missing_locations(_Replaced(node, new).visit(tree))
        loader = _Loader(mutant.module, compile(tree, f"{mutant.module}.py", "exec"))
    sys.meta_path.insert(0, loader)
    return importlib.import_module(PACKAGE)


@dataclass
class Text:
    """A text of the tests; `proved`: its verdict. `damage`: of its certificate, which is then refused. `kills`: of how
    many mutants."""

    name: str
    text: str
    launch: dict[str, Any]
    proved: bool
    damage: str = ""
    kills: int = 0


def texts() -> list[Text]:
    """The texts of tests/proof, with what the prover says of them; the short ones first."""
    out = []
    for number, (text, launch) in enumerate(_collected()):
        proved = judged(minitile.proof, text, launch) == ""
        out.append(Text(f"text {number}", text, launch, proved))
    out.sort(key=lambda each: len(each.text))
    from tests.proof.test_certificate import DAMAGES
    from tests.proof.test_examples import text_and_launch

    for target, name in (("sm_90a", "gemm"), ("sm_90a, one role", "gemm"), ("sm_80", "gemm"), ("sm_90a", "attention")):
        text, facts = text_and_launch(name, target)
        launch = {"boxes": facts.boxes, "threads": facts.threads, "shared": facts.shared, "divides": facts.divides}
        out.append(Text(f"{name}, {target}", text, launch, True))
        if (target, name) == ("sm_90a", "gemm"):
            out += [Text(f"damaged: {each}", text, launch, False, each) for each in DAMAGES]
    return out


def _collected() -> list[tuple[str, dict[str, Any]]]:
    """Small texts, each once."""
    from tests.proof import test_agreement, test_attacks, test_preconditions, test_tickets, test_values
    from tests.proof.foreign.broken import BROKEN
    from tests.proof.foreign.sound import SOUND
    from tests.proof.test_rules import texts as of_rules
    from tests.proof.test_text import HEAD

    bodies: list[tuple[str, int]] = []
    for module in (test_values, test_attacks, test_preconditions):
        for group in ("BROKEN", "SOUND", "BODIES", "LOOPS", "FORMS", "ATOMICS"):
            bodies += [(body, 65536) for body in getattr(module, group, {}).values()]
    bodies += [(body, 4096) for body in (*test_tickets.BROKEN.values(), *test_tickets.SOUND.values())]
    for name in dir(test_agreement):
        for mark in getattr(getattr(test_agreement, name), "pytestmark", ()):
            if mark.name == "parametrize" and mark.args[0] == ("body", "why"):
                bodies += [(body, 4096) for body, _ in mark.args[1]]
    whole = [(HEAD.format(threads=64, shared=size) + body + "\n  ret;\n}\n", 1024) for body, size in bodies]
    whole += [(text, 1024) for text in test_attacks.TEXTS.values()]
    out: list[tuple[str, dict[str, Any]]] = [(text, {"boxes": {"T": box}}) for text, box in dict.fromkeys(whole)]
    out += [
        (text, {"boxes": dict(launch.boxes), "threads": launch.threads, "block": launch.block})
        for text, _, launch in of_rules()
    ]
    for each in (*SOUND.values(), *BROKEN.values()):
        out.append((each.ptx, {"boxes": each.boxes, "threads": each.threads, "shared": each.shared}))
    return out


@lru_cache
def _certificate(text: str, launch: str) -> Any:
    return json.loads(json.dumps(minitile.proof.certificate(text, minitile.proof.Launch(**json.loads(launch)))))


def judged(package: Any, text: str, launch: dict[str, Any], damage: str = "") -> str:
    """ "" for proved, and accepted by the checker; or why not."""
    facts = package.Launch(**launch)
    try:
        if damage:
            from tests.proof.test_certificate import DAMAGES

            data = copy.deepcopy(_certificate(text, json.dumps(launch)))
            DAMAGES[damage][0](data)
        else:
            data = json.loads(json.dumps(package.certificate(text, facts, most_states=120, seconds=4.0)))
        package.check(data, text, facts, seconds=4.0)
    except package.Refused as found:
        return str(found) or "refused"
    return ""


class _Late(BaseException):
    pass


def _late(*_: Any) -> None:
    raise _Late


def killed(mutant: Mutant, corpus: list[Text]) -> str:
    """What kills a mutant: a text by name and how; "" if nothing does."""
    signal.signal(signal.SIGALRM, _late)
    try:
        signal.alarm(60)
        made = package(mutant)
        for each in sorted(corpus, key=lambda each: -each.kills):
            signal.alarm(20)
            if each.damage and mutant.module not in ("check", "explore"):
                continue
            try:
                why = judged(made, each.text, each.launch, each.damage)
            except Exception as error:
                why = f"crash {type(error).__name__}"
            if (not why) != each.proved or why.startswith("crash"):
                each.kills += 1
                return f"{each.name} ({'proved' if not why else why[:60]})"
    except _Late:
        return "time"
    except Exception as error:
        return f"import {type(error).__name__}"
    finally:
        signal.alarm(0)
    return ""


def main() -> None:
    import tests.proof.conftest  # noqa: F401 (where the examples are)

    path, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300
    shard, shards = map(int, (sys.argv[3] if len(sys.argv) > 3 else "0/1").split("/"))
    known = {json.loads(line)["key"] for line in path.read_text().splitlines()} if path.exists() else set()
    corpus = texts()
    print(f"{len(corpus)} texts, {sum(each.proved for each in corpus)} proved", flush=True)
    for number, mutant in enumerate(sample(count)):
        if number % shards == shard and mutant.key not in known:
            by = killed(mutant, corpus)
            with path.open("a") as out:
                out.write(json.dumps({"key": mutant.key, "number": number, "by": by}) + "\n")
            if not by:
                print(number, mutant.key, flush=True)


if __name__ == "__main__":
    main()
