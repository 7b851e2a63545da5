"""The way of a kernel as one HTML page: `minitile compile FILE.py:KERNEL --html OUT.html`.

The page needs nothing but itself. It shows what `--explain` says, the stages side by side with the lines that belong
together, what each pass changed, who waits for whom, and the map of shared memory.

page.py      what is shown: recorded by compiling once more, looking after each pass
roles.py     the chart of roles, waits and arrivals; memory.py the map of shared memory
render.py    all of it as HTML; page.html has its frame, style and script
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minitile.driver.jit import CompiledKernel


def html(compiled: CompiledKernel) -> str:
    """The page of a compiled kernel. Compiles once more, and assembles where an assembler is installed. Raises
    MinitileError."""
    from minitile.tools.html.page import record
    from minitile.tools.html.render import render

    return render(record(compiled))
