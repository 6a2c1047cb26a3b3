"""Every program compiles for a GPU, which needs none: the interpreter does not notice what the compiler refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_or_interpreter import HAS_GPU

PROGRAMS = [
    ("programs", "iterate", "weighted"),
    ("programs", "iterate", "unweighted"),
    ("programs", "iterate", "weighted hubs"),
    ("programs", "iterate", "weighted hubs finishes"),
    ("programs", "iterate", "unweighted masses"),
    ("programs", "iterate", "weighted hubs masses finishes"),
    ("programs", "vary", "weighted"),
    ("programs", "vary", "weighted hubs masses"),
    ("programs", "vary", "unweighted hubs"),
    ("programs", "minus_laplacian", "weighted hubs"),
    ("programs", "minus_laplacian", "unweighted"),
    ("programs", "join_hubs", "unweighted hubs"),
    ("programs", "save", "unweighted"),
    ("medians", "survey", "unweighted"),
    ("medians", "weigh", "masses"),
    ("medians", "select", "unweighted"),
    ("medians", "select", "masses"),
    ("decisions", "decide", "unweighted"),
    ("decisions", "decide", "masses"),
]
# Run as a script, because this process has Triton's interpreter: kinds of arguments by name, sizes of a small problem.
SCRIPT = """
import importlib, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

module, name, is_weighted = sys.argv[1], sys.argv[2], sys.argv[3].startswith("weighted")
has_masses = "masses" in sys.argv[3]
KINDS = {
    "*fp32": "X Y P norms partials weights candidates best_F",
    "*fp64": "reals columns variations steps sums lam history shared masses candidate_masses",
    "*i32": "labels words active neighbors owners hubs fixed brackets best_labels",
    "*i64": "offsets",
}
KINDS["*fp64" if has_masses else "*i32"] += " counts bar"
SIZES = {"R": 10, "RP": 16, "V": 8, "E": 2, "G": 5, "G_VARY": 7, "ROWS": 32, "WIDTH": 512,
         "IS_WEIGHTED": is_weighted, "HAS_LABELS": is_weighted, "HAS_MASSES": has_masses,
         "HAS_HUBS": "hubs" in sys.argv[3], "FINISHES": "finishes" in sys.argv[3]}
kind_of = {name: kind for kind, names in KINDS.items() for name in names.split()}
program = getattr(importlib.import_module(f"tautcut.kernels.gpu.{module}"), name)
signature = {a: "constexpr" if a in SIZES else kind_of.get(a, "i32") for a in program.arg_names}
sizes = {(i,): SIZES[a] for i, a in enumerate(program.arg_names) if a in SIZES}
source = ASTSource(fn=program, signature=signature, constexprs=sizes)
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
print(len(compiled.asm["cubin"]))
"""


@pytest.mark.skipif(HAS_GPU, reason="a GPU compiles them for itself")
@pytest.mark.parametrize(("module", "name", "graph"), PROGRAMS)
def test_a_program_compiles(module: str, name: str, graph: str, tmp_path: Path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, module, name, graph]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 0
