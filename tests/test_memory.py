"""What is free, what may be taken of it, and the sentence that has the sum."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut import Graph, MTVClassifier, MTVClustering, knn_graph, memory
from tautcut.errors import NotEnoughMemoryError
from tautcut.suggestion import suggest_n_clusters


def test_there_is_memory_and_reading_leaves_half_of_it():
    assert 2**20 < memory.for_reading() <= 0.51 * max(memory.for_work(), memory.free())


def test_a_limit_holds_inside_its_block():
    with memory.limited(12345):
        assert memory.for_reading() == memory.for_work() == 12345
        with memory.limited(None):
            assert memory.for_work() > 12345
        assert memory.for_work() == 12345
    assert memory.for_work() > 12345


def test_what_fits_passes_and_what_does_not_says_the_sum():
    memory.foresee(100, 100, "A table", "Take fewer rows.")
    with pytest.raises(
        NotEnoughMemoryError, match=r"A table would take 3\.0 GiB of memory, and 50\.0 MiB are .* Take fewer rows\."
    ):
        memory.foresee(3 * 2**30, 50 * 2**20, "A table", "Take fewer rows.")


def test_the_error_is_a_memory_error():
    assert issubclass(NotEnoughMemoryError, MemoryError)


def test_a_limit_on_the_process_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); from tautcut import memory;"
        "print(memory.free())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 2**32


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CONTROL_GROUP", tmp_path)
    without = memory.free()
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.free() == 600000 < without
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() > 600000


RING = Graph.from_edges([(i, (i + 1) % 600) for i in range(600)])


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda: MTVClustering(300, affinity="precomputed").fit(RING), "300 clusters of 600 vertices with 600 edges"),
        (lambda: MTVClustering(300, affinity="precomputed", search="none").fit(RING), "300 clusters of 600 vertices"),
        (
            lambda: MTVClassifier(affinity="precomputed").fit(RING, np.r_[np.arange(300), np.full(300, -1)]),
            "300 clusters of 600 vertices",
        ),
        (lambda: suggest_n_clusters(RING, [240, 250]), "240 clusters of 600 vertices"),
        (lambda: knn_graph(np.ones((600, 900)), 10), "The 10 nearest of 600 points in 900 dimensions"),
        (lambda: Graph.from_any(np.ones((300, 300))), "A graph of 300 vertices"),
        (lambda: Graph.from_any(sp.identity(60_000)), "A graph of 60,000 vertices"),
        (lambda: Graph.from_edges([(0, 10**6)]), "A graph of 1,000,001 vertices"),
    ],
)
def test_work_that_would_not_fit_is_refused_before_it_begins(work, told):
    with memory.limited(10**6), pytest.raises(NotEnoughMemoryError, match=told):
        work()


def test_a_graph_of_more_vertices_than_any_memory_holds_is_refused_without_a_limit():
    with pytest.raises(NotEnoughMemoryError, match="A graph of 1,000,000,000,001 vertices would take"):
        Graph.from_edges([(0, 10**12)])


STARVED = """
import resource, sys
import numpy as np, psutil
from tautcut import memory
a, out = np.ones((256, 256)), np.empty((256, 256))
if sys.argv[1] == "reserve":
    memory.reserve()
limit = psutil.Process().memory_info().vms + 2**21
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
np.matmul(a, a, out=out)
print("multiplied")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
def test_working_memory_is_there_when_all_other_is_gone():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", STARVED, "reserve"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "multiplied\n", done.stderr
