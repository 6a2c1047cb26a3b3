"""What the site shows beside docs/: the README as its first page, CONTRIBUTING, CHANGELOG, LICENSE, CITATION.cff and
the gallery, whose examples are run as the site is built. Links between these files and docs/ are turned to where the
pages are. The navigation is made here too, so that a new example or decision record is in it without being listed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, PICTURES = ROOT / "examples", ROOT / "build" / "examples"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
SHOWN_AS_TEXT = {"LICENSE": ("license.md", "License"), "CITATION.cff": ("citation.md", "How to cite")}
# In the order in which to read them.
TUTORIALS = ("start", "few-labels", "labelling", "choosing", "method", "many-machines", "from-anndata")
RESULTS = (
    "bench", "claims", "labels", "labelling", "labelling-page", "advice", "small", "uneven", "strain", "suggestions",
    "interrupts", "masses", "smoothing", "walks", "hubs", "aims", "scale", "threads", "neighbors", "gpu", "kernels",
    "sharding", "distributed", "table1", "table2",
)  # fmt: skip

ABOUT = (
    "notation", "architecture", "security", "contributing", "changelog", "citation", "license", "licences",
)  # fmt: skip


def on_config(config: Any) -> Any:
    """The navigation: what a newcomer needs first, and why things are as they are last."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    config["nav"] = [
        {"Home": "index.md"},
        {"Tutorials": [f"tutorials/{name}.md" for name in TUTORIALS]},
        {"Labelling": "labelling.md"},
        {"Shards": "shards.md"},
        {"Gallery": ["gallery/index.md", *(f"gallery/{script.stem}.md" for script in _scripts())]},
        {"API": ["reference/index.md", "reference/experiments.md"]},
        {"Results": [f"results/{name}.md" for name in RESULTS]},
        {"About": [f"{name}.md" for name in ABOUT]},
        {"Decisions": ["decisions/README.md", *(f"decisions/{record.name}" for record in decisions)]},
    ]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=_turned(_read(name))))
    for name, (page, title) in SHOWN_AS_TEXT.items():
        files.append(File.generated(config, page, content=f"# {title}\n\n```text\n{_read(name)}```\n"))
    scripts = _scripts()
    for script in scripts:
        picture = _picture_of(script)
        files.append(File.generated(config, f"gallery/{script.stem}.md", content=_example_page(script, picture)))
        files.append(File.generated(config, f"gallery/{picture.name}", content=picture.read_bytes()))
    files.append(File.generated(config, "gallery/index.md", content=_gallery(scripts)))
    return files


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _scripts() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


def _turned(text: str) -> str:
    """Links of a page that lives at the root of the repository."""
    text = re.sub(r"\]\(docs/decisions\)", "](decisions/README.md)", text)
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\(examples/\w+\.py\)", "](gallery/index.md)", text)
    for name, page in PAGES.items():
        text = text.replace(f"]({name})", f"]({page})")
    for name, (page, _) in SHOWN_AS_TEXT.items():
        text = text.replace(f"]({name})", f"]({page})")
    return text


def _picture_of(script: Path) -> Path:
    """The picture that the example ends in, drawn now."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{script.stem}.png"
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    subprocess.run([sys.executable, str(script), str(picture)], check=True, env=environment, cwd=ROOT)
    return picture


def _title(script: Path) -> str:
    return script.stem.replace("_", " ").capitalize()


def _example_page(script: Path, picture: Path) -> str:
    code = script.read_text(encoding="utf-8")
    return f"# {_title(script)}\n\n![The picture that the script draws]({picture.name})\n\n```python\n{code}```\n"


def _gallery(scripts: list[Path]) -> str:
    entries = "".join(
        f"\n## [{_title(script)}]({script.stem}.md)\n\n[![{_title(script)}]({script.stem}.png)]({script.stem}.md)\n"
        for script in scripts
    )
    return "# Gallery\n\nScripts that end in a picture, run when this site was built.\n" + entries
