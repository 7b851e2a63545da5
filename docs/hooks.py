"""What mkdocs does besides: pages made from files elsewhere, and plots drawn from the results (mkdocs.yml names this).

README.md, CONTRIBUTING.md, CHANGELOG.md     become the front page and the project's pages, with their links mended
benchmarks/results/*.md                      are pages below results/, which the tables link to
images/NAME-light.svg, NAME-dark.svg         are drawn by plots.py; `![…](images/NAME.svg)` shows the one that fits
gemm.html                                    is what `minitile compile --html` writes of the GEMM for sm_90a
<!-- passes -->                              becomes the list of the passes, from the pipeline and their docstrings
<!-- operations -->                          becomes the list of the IR's operations, from their classes
decisions.md                                 each numbered decision becomes a heading that can be linked to
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import plots  # noqa: E402 - found by the line above

PROJECT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
PICTURE = re.compile(r"<picture>.*?alt=\"(.*?)\".*?src=\"docs/images/([\w-]+?)-light\.svg\".*?</picture>", re.DOTALL)
THEMED = re.compile(r"!\[([^\]]*)\]\(((?:\.\./)*images/)(\w+)\.svg\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")
DECISION = re.compile(r"^(\d+)\. \*\*(.+?)\*\*", re.MULTILINE | re.DOTALL)


def on_startup(**_: Any) -> None:
    """This checkout's minitile is the one that is described."""
    sys.path.insert(0, str(ROOT))


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and plots that are not files of docs/."""

    def add(path: str, content: str) -> None:
        if (known := files.get_file_from_path(path)) is not None:
            files.remove(known)
        files.append(File.generated(config, path, content=content))

    for source, page in PROJECT.items():
        add(page, _moved((ROOT / source).read_text(encoding="utf-8")))
    for result in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        name = "index.md" if result.name == "README.md" else result.name
        add(f"results/{name}", _without_links(result.read_text(encoding="utf-8")))
    for name in plots.PLOTS:
        for theme in plots.THEMES:
            add(f"images/{name}-{theme}.svg", plots.draw(name, theme))
    add("gemm.html", _kernel_page())
    return files


def _kernel_page() -> str:
    """The GEMM of examples/ on one page."""
    from minitile import spec
    from minitile.tools.html import html

    sys.path.append(str(ROOT / "examples"))
    from gemm import gemm_nt_bf16

    return html(gemm_nt_bf16().compile(*[spec((8192, 8192), "bfloat16")] * 3, target="sm_90a"))


def _moved(text: str) -> str:
    """A file of the root as a page: what it links to is below docs/, a result, or no page at all."""
    text = PICTURE.sub(r"![\1](images/\2.svg)", text)

    def link(found: re.Match[str]) -> str:
        shown, target = found[1], found[2]
        if target in PROJECT:
            return f"[{shown}]({PROJECT[target]})"
        if target.startswith("docs/"):
            return f"[{shown}]({target.removeprefix('docs/')})"
        if target.startswith("benchmarks/results/"):
            return f"[{shown}](results/{target.rpartition('/')[2]})"
        return f"`{target}`"

    return LINK.sub(link, text)


def _without_links(text: str) -> str:
    return LINK.sub(lambda found: f"`{found[2]}`", text)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Plots for both themes, the list of passes, headings of decisions."""
    markdown = THEMED.sub(
        lambda m: (
            "\n".join(f"![{m[1]}]({m[2]}{m[3]}-{theme}.svg#only-{theme})" for theme in plots.THEMES)
            if m[3] in plots.PLOTS
            else m[0]
        ),
        markdown,
    )
    if "<!-- passes -->" in markdown:
        markdown = markdown.replace("<!-- passes -->", _passes())
    if "<!-- operations -->" in markdown:
        markdown = markdown.replace("<!-- operations -->", _operations())
    if page.file.src_path == "decisions.md":
        markdown = _decisions(markdown)
    return markdown


def on_post_page(output: str, **_: Any) -> str:
    """`Any` says nothing of a parameter."""
    found = r"<code><span title=\"[a-z.]*Any\">Any</span></code>"
    return re.sub(rf"\s*\({found}\)", "", re.sub(rf"\({found}, ", "(", output))


def _decisions(markdown: str) -> str:
    def heading(found: re.Match[str]) -> str:
        title = " ".join(found[2].split())
        begins = "" if title.endswith(".") else f"**{title}**"  # where the sentence goes on behind the title
        return f"## {found[1]}. {title.rstrip('.,')} {{#d{found[1]}}}\n\n{begins}"

    head, first, rest = markdown.partition("\n1. **")
    rest = DECISION.sub(heading, first.lstrip("\n") + rest)
    lines = [line.strip() if re.match(r" {3,4}\S", line) else line for line in rest.splitlines()]
    return head + "\n\n" + "\n".join(lines) + "\n"


def _passes() -> str:
    """A table for each stage: the pass, the first sentence of its file, whether it can be left out."""
    from minitile.driver import pipeline

    lines = []
    for title, passes in (("On tile IR", pipeline.TILE_PASSES), ("On thread IR", pipeline.THREAD_PASSES)):
        lines += [f"### {title}", "", "| pass | what it does | optional |", "|---|---|---|"]
        for name, function in passes:
            module = inspect.getmodule(function)
            first = _sentence((function.__doc__ if name == "legalize" else getattr(module, "__doc__", "")) or "")
            lines.append(f"| `{name}` | {first} | {'yes' if name in pipeline.OPTIONAL else ''} |")
        lines.append("")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """The first sentence of a docstring, for a cell of a table."""
    first = re.split(r"(?<=[.:])\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    parts = (first.rstrip(":") + ("." if first.endswith(":") else "")).split("`")
    marked = [part if n % 2 else re.sub(r"([*_<>\[\]])", r"\\\1", part) for n, part in enumerate(parts)]
    return "`".join(marked).replace("|", r"\|")


def _operations() -> str:
    """For each file of operations a table; those whose name says all are listed in one row."""
    import minitile.ir.ops  # noqa: F401 - fills the registry
    from minitile.ir.core import Op

    files: dict[str, list[tuple[str, type[Op]]]] = {}
    for name, kind in Op.registry.items():
        files.setdefault(kind.__module__, []).append((name, kind))
    lines = []
    for file, kinds in files.items():
        said = _sentence(sys.modules[file].__doc__ or "").rstrip(".")
        lines += [f"### `{file.rpartition('.')[2]}`", "", f"{said}.", "", "| operation | |", "|---|---|"]
        plain = [name for name, kind in kinds if (kind.__doc__ or "").startswith(f"{kind.__name__}(")]
        lines += [f"| {', '.join(f'`{name}`' for name in plain)} | |"] if plain else []
        lines += [f"| `{name}` | {_sentence(kind.__doc__ or '')} |" for name, kind in kinds if name not in plain]
        lines.append("")
    return "\n".join(lines)
