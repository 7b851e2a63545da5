"""`minitile cache`: what is in the on-disk cache, and how much of it is to stay."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitile.driver.cache import Cache, default_cache, parse_size, read_any
from minitile.ir.diagnostics import MinitileError


@dataclass(frozen=True)
class Row:
    """One entry for people: what it is of, what it is, when it was last used (seconds since 1970; to the hour), how
    large the file is, and the beginning of its key."""

    name: str
    kind: str
    arch: str
    used: float
    size: int
    key: str
    more: str

    def __str__(self) -> str:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.used))
        return f"{self.key}  {used}  {self.size:>9} bytes  {self.kind:<11} {self.arch:<8} {self.name}{self.more}"


ORDERS: dict[str, Callable[[Row], Any]] = {
    "used": lambda row: -row.used,
    "size": lambda row: -row.size,
    "name": lambda row: row.name,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("show", "trim", "clear"),
        nargs="?",
        default="show",
        help="show: a line for each entry; trim: remove those not used for longest; clear: all (default show)",
    )
    parser.add_argument(
        "--sort", choices=tuple(ORDERS), default="used", help="show: the order (default: last used first)"
    )
    parser.add_argument("--name", metavar="TEXT", default="", help="show: only kernels with this in their name")
    parser.add_argument("--size", help="trim: to at most this much, as in 500M (default: MINITILE_CACHE_SIZE, or 1G)")


def main(args: argparse.Namespace) -> int:
    store = default_cache()
    if store is None:
        print("the cache is switched off (MINITILE_CACHE=0)")
        return 0
    if refusal := store.refusal():
        print(f"the cache is not used: {refusal}")
        return 1
    if args.action == "clear":
        print(f"{store.root}: {store.clear()} entries removed")
        return 0
    if args.action == "trim":
        try:
            limit = store.limit if args.size is None else parse_size(args.size)
        except ValueError:
            raise MinitileError(f"--size {args.size} is no size", hint="as in 500M or 2G") from None
        print(f"{store.root}: {Cache(store.root, limit).evict(kept=1.0)} entries removed")
    found = list(rows(store))
    if args.action == "show":
        for row in sorted((r for r in found if args.name in r.name), key=ORDERS[args.sort]):
            print(row)
    total = sum(row.size for row in found)
    print(f"{store.root}: {len(found)} entries, {total / 1e6:.2f} MB of at most {store.limit / 1e6:.0f}")
    return 0


def rows(store: Cache) -> Iterator[Row]:
    """The entries, in the order of their keys."""
    for key, path in store.entries():
        row = _row(key, path)
        if row is not None:
            yield row


def _row(key: str, path: Path) -> Row | None:
    """None for a file that is no entry, or went meanwhile."""
    try:
        about = path.stat()
    except OSError:
        return None
    entry = read_any(path)
    if entry is None:
        return None
    parts, meta, _ = entry
    arch = meta.get("arch", parts.get(".target", parts.get(".arch", "")))
    name = parts.get(".name", "")
    registers = f"  {meta['registers']} registers" if meta.get("registers") is not None else ""
    name = name if isinstance(name, str) else f"({name[0]} characters)"
    return Row(name or "?", str(parts.get("kind")), str(arch), about.st_mtime, about.st_size, key[:16], registers)
