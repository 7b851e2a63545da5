"""What TileLang's language has and minitile's has not, and what to write instead."""

from __future__ import annotations

from minitile.ir.diagnostics import LanguageError
from minitile.language.missing import missing
from minitile.language.tracing.context import active

ABSENT: dict[str, str] = {
    "PersistentTileScheduler": "T.Persistent",
    "make_tensor": "a parameter T.Tensor(shape, dtype)",
    "ptr": "a parameter T.Tensor(shape, dtype)",
    "call_extern": "the operation in the language, or minitile's T.ptx, which takes PTX text",
}


def absent(name: str) -> Exception:
    """What to raise for `T.name`."""
    hint = ABSENT.get(name)
    if hint is None or name.startswith("__"):
        return missing(name)
    trace = active()
    message = f"T.{name} is not there"
    if trace is None:
        return AttributeError(f"{message} (write {hint})")
    return LanguageError(message, trace.loc, f"write {hint}")
