"""The names and types that a kernel's arguments have in C and C++."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minitile.ir.diagnostics import MinitileError
from minitile.runtime.launch_info import LaunchInfo, ScalarArg, Slot, TensorArg, dims_of

# The words of C23 and C++23, and the names that the generated functions use themselves.
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual
    void volatile wchar_t while xor xor_eq linux unix NULL errno stdin stdout stderr
    stream status big device function kernarg size extra config attributes params grid
    most zero box dims strides memset snprintf offsetof""",
    )
)
_LOCALS = re.compile(r"(g|p|w|shape|strides|lies)\d+|(mt_|MT_|INT|UINT).*")
# What memory of a dtype is to C; of the rest it has no type.
_ELEMENTS = {
    "f64": "double",
    "f32": "float",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}
_NUMBERS = {
    **_ELEMENTS,
    "bool": "uint8_t",
    **dict.fromkeys(("f16", "bf16"), "uint16_t"),
    **dict.fromkeys(("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"), "uint8_t"),
}
BITS = frozenset(_NUMBERS) - frozenset(_ELEMENTS) - {"bool"}  # numbers that are passed as the bits that they are
LIMITS = {
    **{f"i{bits}": (f"INT{bits}_MIN", f"INT{bits}_MAX") for bits in (8, 16, 32)},
    **{f"u{bits}": ("0", f"UINT{bits}_MAX") for bits in (8, 16, 32)},
    "u64": ("0", "INT64_MAX"),
    "bool": ("0", "1"),
}


def c_name(name: str) -> str:
    """A name that C has, for what a user calls a kernel. Raises MinitileError."""
    if (
        not (name.isascii() and name.isidentifier())
        or name in _WORDS
        or name.startswith("_")
        or _LOCALS.fullmatch(name)
    ):
        raise MinitileError(f"{name!r} is no name for a function in C", hint="choose one with --name")
    return name


@dataclass(frozen=True)
class Argument:
    """One argument of the launch function: its name and type in C, and what the header says of it."""

    name: str
    kind: str
    about: str

    @property
    def text(self) -> str:
        return f"{self.kind}{'' if self.kind.endswith('*') else ' '}{self.name}"


def number_type(dtype: str) -> str:
    """The C type of a parameter of a dtype."""
    return _NUMBERS[dtype]


def slot_names(info: LaunchInfo) -> dict[Slot, str]:
    """The C names of all slots, each another one."""
    slots: list[Slot] = [("pointer" if isinstance(a, TensorArg) else "scalar", a.name) for a in info.args]
    slots += [("dim", d) for d in dims_of(info.args)]
    taken: set[str] = set()
    names: dict[Slot, str] = {}
    for slot in slots:
        name = "".join(c if c.isascii() else f"u{ord(c):x}" for c in slot[1]).lstrip("_") or "arg"
        if _LOCALS.fullmatch(name) or name[0].isdigit():
            name = f"a_{name}"
        while name in _WORDS or name in taken:
            name += "_"
        taken.add(name)
        names[slot] = name
    return names


def arguments(info: LaunchInfo) -> list[Argument]:
    """The kernel's arguments in order, behind them its run-time dimensions and strides."""
    names, found = slot_names(info), []
    for arg in info.args:
        if isinstance(arg, ScalarArg):
            bits = ", as its bits" if arg.dtype in BITS else ""
            found.append(Argument(names["scalar", arg.name], number_type(arg.dtype), f"{arg.dtype}{bits}"))
            continue
        const = "" if arg.name in info.written else "const "
        shape = ", ".join(_size(d, names) for d in arg.shape)
        strides = "row-major without gaps"
        if arg.strides is not None:
            strides = f"strides ({', '.join(_size(s, names) for s in arg.strides)}) in elements"
        found.append(
            Argument(
                names["pointer", arg.name],
                f"{const}{_ELEMENTS.get(arg.dtype, 'void')} *",
                f"{arg.dtype} ({shape}), {strides}{'; written' if arg.name in info.written else ''}",
            )
        )
    sizes = dims_of(info.args, strides=False)
    for dim in dims_of(info.args):
        about = "a size" if dim in sizes else "a stride, in elements"
        found.append(Argument(names["dim", dim], "int64_t", about))
    return found


def _size(size: int | str, names: dict[Slot, str]) -> str:
    return str(size) if isinstance(size, int) else names["dim", size]
