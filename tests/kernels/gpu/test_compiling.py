"""Every program compiles for a GPU, which needs none: the interpreter does not notice what the compiler refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_or_interpreter import HAS_GPU

PROGRAMS = {
    "programs": [
        "iterate weighted", "iterate unweighted", "iterate weighted hubs", "iterate weighted hubs finishes",
        "iterate unweighted masses", "iterate weighted hubs masses finishes", "iterate weighted hubs masses wide",
        "vary weighted", "vary weighted hubs masses", "vary unweighted hubs",
        "vary_once weighted hubs ghosts wide", "vary_once unweighted", "arrive unweighted", "arrive wide",
        "minus_laplacian weighted hubs", "minus_laplacian unweighted", "join_hubs unweighted hubs", "save unweighted",
    ],
    "medians": ["survey unweighted", "weigh masses", "select unweighted", "select masses"],
    "decisions": ["decide unweighted", "decide masses"],
    "tallies": ["look unweighted", "look masses wide", "spread unweighted", "spread masses wide", "note wide"],
}  # fmt: skip
# Run as a script, because this process has Triton's interpreter: kinds of arguments by name, sizes of a small problem.
SCRIPT = """
import importlib, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

POINTERS = {
    "*fp32": "X Y P F F_k norms partials weights candidates best_F incoming bracket",
    "*fp64": "reals columns variations steps sums lam history shared masses candidate_masses bins",
    "*i32": "labels words active neighbors owners hubs fixed brackets best_labels n_found found chosen low high width",
    "*i64": "offsets numbers ghosts",
}
module = importlib.import_module(f"tautcut.kernels.gpu.{sys.argv[1]}")
for asked in sys.argv[2:]:
    name, *words = asked.split()
    flags = {"IS_WEIGHTED": "weighted", "HAS_LABELS": "weighted", "HAS_MASSES": "masses", "HAS_HUBS": "hubs",
             "FINISHES": "finishes", "HAS_GHOSTS": "ghosts", "IS_WIDE": "wide"}
    constants = {"R": 10, "RP": 16, "V": 8, "E": 2, "G": 5, "G_VARY": 7, "ROWS": 32, "WIDTH": 512, "BINS": 256,
                 **{flag: word in words for flag, word in flags.items()}}
    kind_of = {one: kind for kind, names in POINTERS.items() for one in names.split()}
    kind_of |= dict.fromkeys(("counts", "bar"), "*fp64" if "masses" in words else "*i32")
    program = getattr(module, name)
    signature = {a: "constexpr" if a in constants else kind_of.get(a, "i32") for a in program.arg_names}
    sizes = {(i,): constants[a] for i, a in enumerate(program.arg_names) if a in constants}
    source = ASTSource(fn=program, signature=signature, constexprs=sizes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    print(asked, "|", len(compiled.asm["cubin"]))
"""


@pytest.mark.skipif(HAS_GPU, reason="a GPU compiles them for itself")
@pytest.mark.parametrize("module", PROGRAMS)
def test_programs_compile(module: str, tmp_path: Path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, module, *PROGRAMS[module]]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sizes = dict(line.split(" | ") for line in ended.stdout.splitlines())
    assert list(sizes) == PROGRAMS[module]
    assert all(int(size) > 0 for size in sizes.values())
