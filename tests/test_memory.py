"""What is free, what may be taken of it, and the sentence that has the sum."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tautcut import Graph, MTVClassifier, MTVClustering, knn_graph, memory
from tautcut.errors import NotEnoughMemoryError
from tautcut.search.plan import Plan
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


def test_the_peak_stays_when_memory_is_given_back():
    before = memory.peak()
    held = np.ones(2**24)
    size = held.nbytes
    del held
    assert memory.peak() >= max(before, size)
    alone = subprocess.run(
        [sys.executable, "-c", "from tautcut import memory; print(memory.peak())"], capture_output=True, check=True
    )
    assert 2**20 < int(alone.stdout) < memory.peak()


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


def test_the_sentence_holds_the_sum_of_the_page():
    plan = Plan(dtype="mixed")
    need = plan.bytes_of_fit(RING.n_vertices, RING.indices.size, 300)
    assert need == 1200 * (96 + 2 * 300) + 600 * 48 * 300
    told = rf"300 clusters of 600 vertices with 600 edges would take {need / 2**20:.1f} MiB of memory"
    with memory.limited(10**6), pytest.raises(NotEnoughMemoryError, match=told):
        plan.foresee_memory(RING, 300)


MEASURED = """
import gc, time
import numpy as np
from hostile.sandbox import forget_peak, peak_since
from tautcut import Graph, MTVClustering
from tautcut.search.plan import Plan

def graph(n):  # a ring of blocks, each vertex joined to neighbours at random
    rng = np.random.default_rng(0)
    edges = np.column_stack([np.repeat(np.arange(n), 6), (np.repeat(np.arange(n), 6) + rng.integers(1, 40, 6 * n)) % n])
    return Graph.from_edges(np.unique(np.sort(edges, axis=1), axis=0))

R, small, large = 32, graph(10_000), graph(30_000)
for dtype in ("mixed", "float32"):
    model = MTVClustering(R, affinity="precomputed", n_init=2, max_iter=20, dtype=dtype, random_state=0)
    model.fit(small)  # loads and compiles much besides
    del model.result_, model.graph_
    gc.collect()
    time.sleep(0.5)  # for threads that still wait with its arrays
    before = forget_peak()
    model.fit(large)
    print(Plan(dtype=dtype).bytes_of_fit(large.n_vertices, large.indices.size, R) / 2**20, peak_since(before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_fit_takes_what_was_foreseen_and_no_less_than_half_of_it():
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed is given back
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, env=environment)
    measured = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(measured) == 2
    for foreseen, taken in measured:
        assert foreseen / 2 < taken < foreseen, measured


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
