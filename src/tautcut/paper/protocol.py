"""The paper's two tables as lists of independent runs. A `RunSpec` names one run completely; `table1` and `table2` list
the specs of a table, and `record_of` makes the run of a spec, in whichever process. Starts depend on the seed and their
number alone, so every method is given the same ones. No method sees the truth, other than the labels that table 2
gives it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, Literal

import numpy as np

from tautcut import baselines
from tautcut.algorithm.stopping import Status
from tautcut.arrays import FloatArray, IntArray
from tautcut.checks import UNLABELLED
from tautcut.datasets import PAPER_NAMES, LabelledGraph, paper_graph
from tautcut.errors import TautcutError
from tautcut.estimators import MTVClassifier, MTVClustering
from tautcut.kernels.devices import thread_count
from tautcut.paper.published import TABLE2
from tautcut.problem import Problem
from tautcut.records.records import RunRecord, circumstances
from tautcut.records.runs import draw_labels, run_baseline, run_estimator
from tautcut.search.starts import StartMaker, start_maker

#: (a) is the NCut indicator, (b) one diffused vertex of each NCut cluster; "own" is whatever the method does by itself,
#: and "labels" the known labels, propagated.
Start = Literal["a", "b", "own", "labels"]

OFFSET = 0.2  # the paper adds it to the starts of LSD and NMFR, whose zeros would stay zero
LABELS = tuple(TABLE2)
N_VERTICES = {"4moons": 4000, "webkb4": 4196, "optdigits": 5620, "pendigits": 10992, "20news": 19934, "mnist": 70000}


@dataclass(frozen=True)
class Budget:
    """How long a method runs from the start (a), how long from each start (b), and from how many of those."""

    first: int
    others: int
    trials: int


PAPER_BUDGET = Budget(first=10_000, others=2_000, trials=30)
PAPER_TRIALS = 10  # draws of labels in table 2
QUICK_TRIALS = 3
LABELLED_ITERATIONS = 2_000
_QUICK = Budget(first=2_000, others=2_000, trials=3)
_REDUCED = Budget(first=1_000, others=1_000, trials=3)  # NMFR's: in full, its runs on mnist take hours on two cores


@dataclass(frozen=True)
class RunSpec:
    """One independent run of an experiment, named completely."""

    table: str  # "table1" or "table2"
    data: str
    method: str
    start: Start
    trial: int = 0  # which of the starts (b), or which draw of labels
    max_iter: int | None = None  # None where the method stops by itself
    labels: str = ""  # how many of each class are known: "" for none, "1" for one, "2.5%" for a share
    seed: int = 0  # of the whole experiment

    @property
    def key(self) -> str:
        """The name of the run; equal specs have equal keys, now and in later versions."""
        labels = f"{self.labels} labels" if self.labels else "no labels"
        limit = "own limit" if self.max_iter is None else f"{self.max_iter} iterations"
        start = f"start {self.start} {self.trial}"
        return " / ".join([self.table, self.data, self.method, labels, start, limit, f"seed {self.seed}"])

    @property
    def cost(self) -> float:
        """How long the run takes, roughly and in no unit; for the time left, and for nothing else."""
        per_iteration, own_iterations = _COSTS[self.method]
        return per_iteration * (self.max_iter or own_iterations) * N_VERTICES.get(self.data, 1000)


# Of an iteration, relative to one of LSD; and the iterations that one whole fit compares to.
_COSTS = {
    "NCC-TV": (1.0, 15_000),
    "1SPEC": (1.0, 5_000),
    "LSD": (1.0, 10_000),
    "NMFR": (4.0, 10_000),
    "MTV": (0.1, 2_000),
    "tautcut": (1.0, 1_500),
}


def table1(*, seed: int = 0, is_quick: bool = False) -> list[RunSpec]:
    """The runs of the first table: six methods without labels, four of them from the same 31 starts."""
    return [
        spec
        for data in PAPER_NAMES
        for method in METHODS["table1"]
        for spec in _table1_cell(data, method, seed, is_quick)
    ]


def table2(*, seed: int = 0, is_quick: bool = False) -> list[RunSpec]:
    """The runs of the second table: each number of labels, drawn anew in each trial, the same for both methods."""
    return [
        RunSpec("table2", data, method, "labels", trial, LABELLED_ITERATIONS, labels, seed)
        for data in PAPER_NAMES
        for labels in LABELS
        for method in METHODS["table2"]
        for trial in range(QUICK_TRIALS if is_quick else PAPER_TRIALS)
    ]


def _table1_cell(data: str, method: str, seed: int, is_quick: bool) -> list[RunSpec]:
    if method not in WITH_STARTS:
        return [RunSpec("table1", data, method, "own", seed=seed)]
    budget = _QUICK if is_quick else PAPER_BUDGET
    if method == "NMFR" and (is_quick or data == "mnist"):
        budget = _REDUCED
    first = RunSpec("table1", data, method, "a", 0, budget.first, seed=seed)
    others = [RunSpec("table1", data, method, "b", trial, budget.others, seed=seed) for trial in range(budget.trials)]
    return [first, *others]


def record_of(spec: RunSpec) -> RunRecord:
    """The record of the run; one that fails for a reason of its own leaves a record without sizes that says why."""
    data = labelled_graph(spec.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the record says it: sizes, status
        try:
            record = METHODS[spec.table][spec.method](spec, data)
        except (TautcutError, ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
            record = _failure(error)
    if record.status == Status.INTERRUPTED:
        raise KeyboardInterrupt  # the solver hands over its best so far, which is no result of the protocol
    about = {"n_vertices": data.graph.n_vertices, "n_edges": data.graph.n_edges, "note": data.note}
    return replace(
        record, data=spec.data, method=spec.method, seed=spec.seed,
        settings={"spec": asdict(spec), "graph": about, **record.settings},
        machine={**record.machine, "threads": thread_count()},
    )  # fmt: skip


@cache
def labelled_graph(name: str) -> LabelledGraph:
    """The data set of this name, loaded once in each process."""
    return paper_graph(name)


def drawn_labels(spec: RunSpec, truth: IntArray) -> IntArray:
    """The labels that a run of table 2 is given, −1 elsewhere: drawn in every class, from the seed and the trial."""
    rng = np.random.default_rng([spec.seed, spec.trial, LABELS.index(spec.labels)])
    if spec.labels.endswith("%"):
        return draw_labels(truth, share=float(spec.labels[:-1]) / 100, rng=rng)
    return draw_labels(truth, per_class=int(spec.labels), rng=rng)


def start_of(spec: RunSpec) -> FloatArray:
    """F⁰ of a run of table 1 from the NCut clusters, which all starts of one seed share."""
    indicator, seeds = _start_makers(spec.data, spec.seed)
    if spec.start == "a":
        return indicator
    return seeds(spec.trial, np.random.default_rng([spec.seed, spec.trial]))


@lru_cache(maxsize=2)
def _start_makers(data: str, seed: int) -> tuple[FloatArray, StartMaker]:
    """The start (a) and the maker of starts (b); equal generators give both the same NCut clusters."""
    one = labelled_graph(data)
    problem = Problem(one.graph, _n_classes(one))
    a = start_maker(problem, "ncut", rng=np.random.default_rng(seed))
    b = start_maker(problem, "ncut-seeds", rng=np.random.default_rng(seed))
    return a(0, np.random.default_rng(seed)), b


def _n_classes(data: LabelledGraph) -> int:
    return int(np.unique(data.truth).size)


def _failure(error: Exception) -> RunRecord:
    sentence = str(error) or type(error).__name__
    return RunRecord(
        data="", method="", settings={}, seed=0, n_labelled=0, energy=None, purity=None, seconds=0.0, sizes=(),
        n_iter=0, status=f"Failed: {sentence}", **circumstances(),
    )  # fmt: skip


# ---------------------------------------------------------------- the methods


def _cluster(spec: RunSpec, data: LabelledGraph, **settings: Any) -> RunRecord:
    model = MTVClustering(_n_classes(data), affinity="precomputed", random_state=spec.seed, **settings)
    return run_estimator(model, data.graph, data=data.name, truth=data.truth, warm_up=True)[1]


def _rival(method: Callable[..., Any], spec: RunSpec, data: LabelledGraph, **settings: Any) -> RunRecord:
    model = method(_n_classes(data), random_state=spec.seed, **settings)
    return run_baseline(model, data.graph, data=data.name, truth=data.truth)


def _factorise(method: Callable[..., Any], spec: RunSpec, data: LabelledGraph, **settings: Any) -> RunRecord:
    return _rival(method, spec, data, init=start_of(spec) + OFFSET, max_iter=spec.max_iter, **settings)


@lru_cache(maxsize=2)
def _lsd_scale(data: str) -> float:
    """LSD's c of a graph, which its starts share: below 8000 vertices a dense inverse, much slower than a run."""
    one = labelled_graph(data)
    R = _n_classes(one)
    start = np.full((one.graph.n_vertices, R), 1.0 / R)
    return baselines.LSD(R, init=start, max_iter=1, random_state=0).fit(one.graph).scale_


def _classify(spec: RunSpec, data: LabelledGraph, **settings: Any) -> RunRecord:
    model = MTVClassifier(
        affinity="precomputed", max_iter=spec.max_iter or LABELLED_ITERATIONS, random_state=spec.seed, **settings
    )
    y = drawn_labels(spec, data.truth)
    fitted, record = run_estimator(model, data.graph, y, data=data.name, truth=data.truth, warm_up=True)
    hidden = y == UNLABELLED
    right = float((fitted.transduction_[hidden] == data.truth[hidden]).mean())
    return replace(record, measures={**record.measures, "accuracy_unlabelled": right})


_AS_PRINTED: dict[str, Any] = {"algorithm": "paper", "search": "none"}  # Algorithm 1, and nothing on top of it

METHODS: dict[str, dict[str, Callable[[RunSpec, LabelledGraph], RunRecord]]] = {
    "table1": {
        "NCC-TV": partial(_rival, baselines.NCCTV, scope="graph"),  # decision 0018
        "1SPEC": partial(_rival, baselines.OneSpectral),
        "LSD": lambda spec, data: _factorise(baselines.LSD, spec, data, scale=_lsd_scale(spec.data)),
        "NMFR": partial(_factorise, baselines.NMFR),
        "MTV": lambda spec, data: _cluster(
            spec, data, init=start_of(spec), n_init=1, max_iter=spec.max_iter, **_AS_PRINTED
        ),
        "tautcut": _cluster,
    },
    "table2": {"MTV": partial(_classify, class_prior=None, **_AS_PRINTED), "tautcut": _classify},
}
WITH_STARTS = ("LSD", "NMFR", "MTV")
TABLES: dict[str, Callable[..., list[RunSpec]]] = {"table1": table1, "table2": table2}
