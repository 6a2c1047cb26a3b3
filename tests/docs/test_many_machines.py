"""The tutorial on many machines runs, with real processes, where torch is; and its scripts for Slurm and Kubernetes can
be read, and ask torchrun and tautcut for nothing that they do not know.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from tautcut.cli import app
from torchrun import environment
from tutorials import TUTORIALS, run_page

SLURM, KUBERNETES = (TUTORIALS / "many-machines" / name for name in ("slurm.sh", "kubernetes.yaml"))
SAID = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def run_command(words: Sequence[str]) -> None:
    """In a process of its own, with success."""
    command = [sys.executable, "-m", "tautcut", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (words, done.stderr[-2000:])
    if "--verbose" in words:
        assert "% of the time on the wire, " in done.stderr


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    names = run_page(TUTORIALS / "many-machines.md", run_command)
    truth = names["digits"].target
    classes = np.loadtxt("classes.csv", delimiter=",", skiprows=1, usecols=1)
    assert (classes == truth).mean() > 0.85
    assert np.array_equal(names["ids"], np.arange(len(truth)))
    assert np.array_equal(np.loadtxt("labels.csv", delimiter=",", skiprows=1, usecols=1), names["labels"])


@pytest.fixture
def slurm_words(tmp_path: Path) -> list[str]:
    """What the batch script has torchrun do, and says in its environment: Slurm's programs are stood in for."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    programs = {
        "scontrol": "printf 'first\\nsecond\\n'",
        "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; "$@"',
        "torchrun": f'printf "%s\\n" "{SAID}=${SAID}" "OMP_NUM_THREADS=$OMP_NUM_THREADS" "$@" > words',
    }
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!{bash}\n{line}\n")
        (tmp_path / name).chmod(0o755)
    variables = {
        "SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "first,second", "SLURM_JOB_NUM_NODES": "8",
        "SLURM_CPUS_PER_TASK": "64", "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
    }  # fmt: skip
    subprocess.run([bash, "-n", str(SLURM)], check=True)
    subprocess.run([bash, str(SLURM)], check=True, env=os.environ | variables, cwd=tmp_path, timeout=60)
    return (tmp_path / "words").read_text().splitlines()


def test_the_script_for_slurm(slurm_words: list[str]) -> None:
    assert slurm_words[:2] == [f"{SAID}=1", "OMP_NUM_THREADS=8"]
    asked = torchrun_options(slurm_words[2:])
    assert "--rdzv-endpoint=first:23456" in asked
    assert {"--nnodes=8", "--nproc-per-node=8", "--rdzv-backend=c10d", "--max-restarts=3"} <= set(asked)
    text = SLURM.read_text(encoding="utf-8")
    assert {"--requeue", "--ntasks-per-node=1"} <= {
        line.split()[1] for line in text.splitlines() if line.startswith("#SBATCH ")
    }


def test_the_example_for_kubernetes() -> None:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = {
        one["kind"]: one["spec"] for one in yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8"))
    }
    job, service = found["Job"], found["Service"]
    assert job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"] == 2
    assert service["clusterIP"] == "None"
    assert found["PersistentVolumeClaim"]["accessModes"] == ["ReadWriteMany"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert {one["name"] for one in pod["volumes"]} == {one["name"] for one in container["volumeMounts"]}
    assert {"name": SAID, "value": "1"} in container["env"]
    (script,) = container["args"]
    words = shlex.split(script.replace("\\\n", " "))
    asked = torchrun_options(words[words.index("torchrun") + 1 :])
    assert {"--nnodes=2", "--nproc-per-node=4", "--rdzv-endpoint=tautcut-0.tautcut:29400"} <= set(asked)


def test_what_the_page_has_torchrun_do() -> None:
    page = (TUTORIALS / "many-machines.md").read_text(encoding="utf-8")
    (text,) = (block for block in page.split("```") if block.startswith("text\ntorchrun"))
    torchrun_options(shlex.split(text.replace("\\\n", " "))[2:])


def torchrun_options(words: list[str]) -> list[str]:
    """The options of torchrun among the words, when all that follow `-m tautcut` are known to tautcut; torchrun's own
    parser is asked about its own, where there is torch.
    """
    own, command, given = words[: words.index("-m")], words[words.index("-m") + 2], words[words.index("-m") + 3 :]
    assert words[words.index("-m") + 1] == "tautcut"
    known = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    known.make_context(command, list(given))  # ends with what it does not know
    try:
        from torch.distributed.run import get_args_parser
    except ImportError:
        return own
    get_args_parser().parse_args([*own, "-m", "tautcut"])
    return own
