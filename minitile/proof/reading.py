"""PTX text to statements: comments, scopes, directives and the spelling of operands.

A scope `{ … }` within the body names its registers and labels for itself; here each gets a name of its own, so that the
rest of the prover sees one flat list. What is not understood is `Refused`, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


class Refused(Exception):
    """The text is not proved: what is wrong or not understood, with its line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class Statement:
    """An instruction as it is written: `labels` stand before it; `guard` is a register or empty."""

    line: int
    labels: tuple[str, ...]
    guard: str
    negated: bool
    op: str
    args: tuple[str, ...]

    @property
    def text(self) -> str:
        guard = f"@{'!' * self.negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.op} {', '.join(self.args)}".strip()


_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|/\*|\"[^\"\n]*\"", re.S)


def without_block_comments(text: str) -> str:
    """The text with blanks for `/* … */`; lines stay lines."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found == "/*":
            raise Refused(text.count("\n", 0, match.start()) + 1, "a comment that does not end")
        return re.sub(r"[^\n]", " ", found) if found.startswith("/*") else found

    return _TOKEN.sub(blank, text)


_DATA = re.compile(r"(?:\.(?:b8|b16|b32|b64)\b[\w$\s,.+()-]*|[$\w.]+:|\s*)\s*;?")


def without_debug_sections(text: str) -> str:
    """The text with blanks for `.section .debug_… { data }`, which say nothing of what is executed."""
    out, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        code = line.partition("//")[0].strip()
        begins = None if inside else re.fullmatch(r"\.section\s+\.debug_\w+\s*(\{?\s*\}?)", code)
        if begins:
            inside, code = True, begins[1]
        if inside and not _DATA.fullmatch(code.strip("{}")):
            raise Refused(number, f"not known: {code}")
        out.append("" if inside or _FILE.fullmatch(code) else line)
        inside = inside and "}" not in code
    return "\n".join(out)


_FILE = re.compile(r'\.file\s+\d+\s+"[^"]*"(?:\s*,\s*\d+)*\s*')


_SILENT = (".loc", ".pragma", ".shared", ".local", ".file", ".extern .shared")
_NAME = re.compile(r"(?<![\w$%.:])[%$A-Za-z_][\w$]*")
_LABEL = re.compile(r"([$%A-Za-z_][\w$]*)\s*:(?!:)\s*")
_STATEMENT = re.compile(r"(?:@\s*(!?)\s*([%$\w]+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?", re.S)
_DECLARED = re.compile(r"\.reg\s+\.\w+\s+(.*)", re.S)


# Operations that another one stands for: by another name, of a wider scope, or of which less is taken for sure.
_SAME = [
    (re.compile(form), stands_for)
    for form, stands_for in (
        (r"exit", "ret"),
        (r"(?:bar\.cta|barrier(?:\.cta)?)\.(sync|arrive|red)\.aligned", r"bar.\1"),
        (r"bar\.cta\.(sync|arrive|red)(?=\.|$)", r"bar.\1"),
        (r"barrier\.cta\.(sync|arrive|red)(?=\.|$)", r"barrier.\1"),
        (r"(cp\.(?:reduce\.)?async\.bulk\.tensor\.[1-5]d\..*?)\.tile(?=\.|$)", r"\1"),
        (r"mbarrier\.test_wait(?=\.)", "mbarrier.try_wait"),
        (r"(mbarrier\.\w+(?:\.\w+)*?\.(?:acquire|release))\.cluster(?=\.shared(?:::cta)?\.b64)", r"\1.cta"),
        # An access that orders nothing: held to more than what it is.
        (r"(ld|st)\.(?:weak|volatile|(?:relaxed|acquire|release)\.(?:cta|cluster|gpu|sys))(?=\.shared)", r"\1"),
        (r"(ld|st)\.weak(?=\.global)", r"\1"),
    )
]


# How many operands an operation has at least. What is not named here is looked at where it is executed.
_OPERANDS = {
    name: count
    for count, names in (
        (1, "bar.sync bar.arrive barrier.sync barrier.arrive mbarrier.try_wait wgmma.wait_group activemask"),
        (2, "mov cvt cvta neg abs not ex2 lg2 rcp sqrt rsqrt sin cos tanh popc clz brev bfind testp cnot ld elect"),
        (2, "st stmatrix ldmatrix red mbarrier.init"),
        (3, "add sub mul div rem min max and or xor shl shr setp set copysign addc subc mul24 szext bmsk mapa vote"),
        (3, "redux match atom st.async"),
        (4, "mad fma shf prmt bfe selp madc sad dp4a dp2a mad24 slct fns mma wgmma.mma_async"),
        (5, "lop3 bfi shfl"),
    )
    for name in names.split()
}


def _has_operands(op: str, args: tuple[str, ...]) -> bool:
    base, *more = op.split(".")
    return len(args) >= _OPERANDS.get(".".join((base, *more[:1])), _OPERANDS.get(base, 0))


def _standing_for(op: str, args: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    for form, name in _SAME:
        if match := form.match(op):
            op = match.expand(name) + op[match.end() :]
    if op.endswith(".L2::cache_hint") and op.startswith(("cp.", "ld.global", "st.global")) and len(args) > 2:
        op, args = op.removesuffix(".L2::cache_hint"), args[:-1]
    if op.startswith("mbarrier.try_wait") and len(args) == 4:
        args = args[:-1]  # how long to wait at most, before it is tried again
    return op, args


@dataclass
class _Scope:
    """Names that a scope declares, by what stands for them."""

    number: int
    registers: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def _pieces(body: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Labels, statements and directives with their `;`, and the braces of scopes, each with where it begins."""
    lines, numbers = [], [number for number, _ in body]
    for number, raw in body:
        code = _TOKEN.sub(lambda match: match[0] if match[0].startswith('"') else " ", raw)
        place = code.lstrip().startswith((".loc", ".file"))
        if place and code.find(";") not in (-1, len(code.rstrip()) - 1):
            raise Refused(number, f"not known: {code.strip()}")
        if '"' in re.sub(r'\.pragma\s+"\w+"\s*;', "", code) and not place:
            raise Refused(number, f"not known: {code.strip()}")
        lines.append("" if place else code)
    text, at = "\n".join(lines), 0
    while (match := re.compile(r"\s*").match(text, at)) and (at := match.end()) < len(text):
        line = numbers[text.count("\n", 0, at)]
        if text[at] in "{}":
            yield line, text[at]
            at += 1
        elif label := _LABEL.match(text, at):
            yield line, f"{label[1]}:"
            at = label.end()
        else:
            depth, end = 0, at
            while end < len(text) and (text[end] != ";" or depth):
                depth += (text[end] in "{[(") - (text[end] in "}])")
                if depth < 0:
                    break
                end += 1
            if end == len(text) or text[end] != ";":
                raise Refused(line, f"does not end: {text[at:end].strip().splitlines()[0]}")
            yield line, text[at : end + 1]
            at = end + 1


def spelled(arg: str) -> str:
    """An operand without the freedom of its spelling: blanks, offsets in hexadecimal, integers with U."""
    arg = re.sub(r"\s+", " ", arg.strip())
    arg = re.sub(r"\s*([\[\]{},|+])\s*", r"\1", arg)
    arg = re.sub(r",", ", ", arg) if arg.startswith(("[", "{")) else arg
    arg = re.sub(r"(?<![\w$%.])(0[xX][0-9a-fA-F]+|\d+)U\b", r"\1", arg)
    if re.fullmatch(r"-?0[xX][0-9a-fA-F]+", arg):
        return str(int(arg, 0))
    arg = re.sub(r"\+(-?)(0[xX][0-9a-fA-F]+)(?=\])", lambda m: f"+{m[1]}{int(m[2], 16)}", arg)
    return re.sub(r"(?<=[\w$])\+0(?=\])", "", arg) if arg.startswith("[") else arg


def split_operands(text: str) -> tuple[str, ...]:
    """Operands at the top level: commas inside of braces and brackets do not split."""
    out, depth, current = [], 0, ""
    for ch in text:
        depth += (ch in "{[") - (ch in "}]")
        if ch == "," and not depth:
            out.append(current.strip())
            current = ""
        else:
            current += ch
    if current.strip():
        out.append(current.strip())
    return tuple(out)


def _declare(scope: _Scope, line: int, text: str, taken: set[str]) -> None:
    """`.reg`: names within a scope, and names without %, are given new ones, which are not `taken`."""
    match = _DECLARED.fullmatch(text[:-1].strip())
    if not match:
        raise Refused(line, f"not known: {text}")
    for each in split_operands(match[1]):
        found = re.fullmatch(r"([%$A-Za-z_][\w$]*)\s*(?:<\s*(\d+)\s*>)?", each)
        if not found:
            raise Refused(line, f"not known: {text}")
        if found[1].startswith("%") and not scope.number:
            continue
        for name in (f"{found[1]}{n}" for n in range(int(found[2]))) if found[2] else (found[1],):
            if name in scope.registers:
                raise Refused(line, f"a register twice: {name}")
            scope.registers[name] = _fresh(f"%{name.lstrip('%').replace('$', '_')}__{scope.number}", line, taken)


def _fresh(name: str, line: int, taken: set[str]) -> str:
    if name in taken:
        raise Refused(line, f"a name that stands for another: {name}")
    taken.add(name)
    return name


def statements(body: list[tuple[int, str]]) -> tuple[list[Statement], frozenset[str]]:
    """The statements of a body in one flat scope, and labels at its end (before what is not an instruction)."""
    pieces, scopes, stack, count = [], {0: _Scope(0)}, [0], 0
    taken = {name for _, text in body for name in _NAME.findall(text)}
    for line, text in _pieces(body):
        if text == "{":
            count += 1
            scopes[count] = _Scope(count)
            stack.append(count)
        elif text == "}":
            stack.pop()
            if not stack:
                raise Refused(line, "a scope ends that has not begun")
        elif text.endswith(":") and ";" not in text:
            name, scope = text[:-1], scopes[stack[-1]]
            if name in scope.labels:
                raise Refused(line, f"label twice: {name}")
            scope.labels[name] = _fresh(f"{name}__{scope.number}", line, taken) if scope.number else name
            pieces.append((line, text, tuple(stack)))
        elif re.match(r"\.reg\b", text):
            _declare(scopes[stack[-1]], line, text, taken)
        elif text.startswith(_SILENT):
            if len(stack) > 1 and not text.startswith((".loc", ".pragma")):
                raise Refused(line, f"within a scope: {text}")
        elif text.startswith("."):
            raise Refused(line, f"not known: {text}")
        elif text != ";":
            pieces.append((line, text, tuple(stack)))
    if len(stack) > 1:
        raise Refused(body[-1][0] if body else 0, "a scope that does not end")
    out: list[Statement] = []
    labels: tuple[str, ...] = ()
    for line, text, inside in pieces:
        if text.endswith(":") and ";" not in text:
            labels += (scopes[inside[-1]].labels[text[:-1]],)
        else:
            out.append(_statement(line, labels, text[:-1].strip(), [scopes[n] for n in reversed(inside)]))
            labels = ()
    return out, frozenset(labels)


def _statement(line: int, labels: tuple[str, ...], text: str, scopes: list[_Scope]) -> Statement:
    match = _STATEMENT.fullmatch(text)
    if not match:
        raise Refused(line, f"not an instruction: {text}")
    found: list[str] = []
    kind = "labels" if match[3].startswith("bra") else "registers"

    def renamed(name: re.Match[str]) -> str:
        for scope in scopes:
            names = getattr(scope, kind)
            if name[0] in names:
                return str(names[name[0]])
        return name[0]

    for each in split_operands(match[4] or ""):
        found.append(spelled(_NAME.sub(renamed, each)))
    kind = "registers"
    guard = _NAME.sub(renamed, match[2]) if match[2] else ""
    if guard and not guard.startswith("%"):
        raise Refused(line, f"not an instruction: {text}")
    op, args = _standing_for(match[3], tuple(found))
    if not _has_operands(op, args):
        raise Refused(line, f"operands are missing: {text}")
    return Statement(line, labels, guard, match[1] == "!", op, args)


__all__ = ["Refused", "Statement", "spelled", "split_operands", "statements", "without_block_comments",
           "without_debug_sections"]  # fmt: skip
