"""Kernels for C and C++ programs: `minitile build FILE.py:KERNEL -o OUT` (and `write`).

What is written has all that a launch needs, and neither Python nor a GPU's toolkit: NAME.h with one function, NAME.c
with the code and the launch, NAME.cmake with a library of it, the code in files of its own, and NAME.json, the launch
as plain data. All of it is made of `Saved`, the same description from which Python launches.

names.py        the names and types that arguments have in C
expressions.py  the launch's expressions, as C
checks.py       what is refused: the rules of the runtime's binder, of `overlap` and of the facts compiled for
parameters.py   what the entry is given, tensor maps among it
drivers.py      CUDA's and HIP's: what a launch is
source.py       the header, the launch function and the rest; common.c, cuda.c and hip.c are what all kernels share
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minitile.runtime.saved import Saved


def files(saved: Saved, name: str = "") -> dict[str, bytes]:
    """The files of a kernel by name. name: what it is called in C, its own name by default. Raises MinitileError for a
    name that C does not have, or a launch that C cannot do."""
    from minitile.tools.c import source
    from minitile.tools.c.names import c_name

    name = c_name(name or saved.name)
    written = {
        f"{name}.h": source.header(saved, name),
        f"{name}.c": source.source(saved, name),
        f"{name}.cmake": source.cmake(saved, name),
        f"{name}.json": json.dumps(saved.launch.to_json(), indent=2) + "\n",
    }
    return {
        **{file: text.encode() for file, text in written.items()},
        **{f"{name}.{kind}": image for kind, image in saved.images.items()},
    }


def write(saved: Saved, folder: str | Path, name: str = "") -> list[Path]:
    """Writes the files of a kernel; the folder is made if need be. Raises MinitileError, OSError."""
    written = []
    for file, data in files(saved, name).items():
        path = Path(folder, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append(path)
    return written
