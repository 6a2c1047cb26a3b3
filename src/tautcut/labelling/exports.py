"""What is taken away from a labelling session: the given labels, and the classification by them in the formats that
`tautcut classify` writes, or as its page. The classification is fitted anew from the labels and the seed alone, so that
`tautcut classify` with the same labels gives the same (decision 0049): what the page showed meanwhile has no part.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tautcut import formats
from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.formats import Data, Labelling
from tautcut.graph import Graph
from tautcut.labelling.refits import Frame, Worker, as_text, text_of
from tautcut.labelling.session import Session

NAMES = {
    "known.csv": "text/csv; charset=utf-8",
    "classes.csv": "text/csv; charset=utf-8",
    "classes.parquet": "application/vnd.apache.parquet",
    "classes.h5ad": "application/x-hdf5",
    "report.html": "text/html; charset=utf-8",
}


def known_csv(session: Session) -> bytes:
    """The given labels, as `tautcut classify --labels` reads them."""
    return formats.known_text(*session.given()).encode("utf-8")


def export(session: Session, name: str, settings: Mapping[str, Any]) -> bytes:
    """The content of one of the files in `NAMES`; this takes a fit, and is done in a process of its own."""
    if name == "known.csv":
        return known_csv(session)
    request = session.request()
    if request is None:
        raise InputError("no thing has a label yet: there is nothing to classify by. Label a few first.")
    source = session.things.source
    if name.endswith(".h5ad") and source.suffix.lower() != ".h5ad":
        raise InputError("a .h5ad file is a copy of the input with labels, and the input is none. Take .csv.")
    with tempfile.TemporaryDirectory(prefix="tautcut-") as folder:
        path = Path(folder) / name
        about = {"path": str(path), "source": str(source.resolve()), "settings": dict(settings), "seed": session.seed}
        _ask(session.things.graph, {**request, **_frame_of(session.things.data), "about": as_text(about)})
        return path.read_bytes()


def _ask(graph: Graph, request: Frame) -> None:
    """Have a new process make the file."""
    done, found = threading.Event(), []

    def take(answer: Frame | str) -> None:
        found.append(answer)
        done.set()

    worker = Worker(graph, take, take)
    try:
        worker.ask("export", lambda: request)
        done.wait()
    finally:
        worker.close()
    answer = found[0]
    if isinstance(answer, str):
        raise InputError(f"the classification could not be made: {answer}.")
    if "problem" in answer:
        raise InputError(str(answer["problem"]))


def _frame_of(data: Data) -> Frame:
    """What a table or a page needs of the data, as arrays."""
    content: Any = data.content
    others = {name: [str(one) for one in column.tolist()] for name, column in data.others().items()}
    is_whole = data.ids.dtype.kind in "iu"
    frame = {
        "ids": as_text(data.ids.tolist()), "all_ids": as_text(data.all_ids.tolist()), "is_whole": np.array(is_whole),
        "dropped": np.array([] if data.dropped is None else data.dropped, dtype=np.int64),
        "names": as_text(data.names), "image_shape": as_text(data.image_shape), "others": as_text(others),
    }  # fmt: skip
    if isinstance(content, Graph):
        return frame
    if not isinstance(content, np.ndarray):
        return {
            **frame, "data": content.data, "indices": content.indices, "indptr": content.indptr,
            "shape": np.array(content.shape),
        }  # fmt: skip
    return {**frame, "content": content}


def write_classification(graph: Graph, known: Array, request: Frame, about: Mapping[str, Any]) -> None:
    """Fit the classifier to the known labels as `tautcut classify` does, and write a table or a page."""
    from tautcut.estimators import MTVClassifier

    model = MTVClassifier(affinity="precomputed", random_state=about["seed"], search="short", device="cpu")
    model.fit(graph, known)
    path = Path(about["path"])
    ids = _ids(request, "ids")
    if path.suffix == ".html":
        columns = {name: np.array(one, dtype=object) for name, one in text_of(request, "others").items()}
        shape, content = text_of(request, "image_shape"), _content(request)
        images = None if shape is None or content is None else content.reshape(-1, *shape)
        model.report(
            path, ids=ids, features=content, feature_names=text_of(request, "names"), images=images, columns=columns,
            settings=about["settings"],
        )  # fmt: skip
        return
    result = model.result_
    told = formats.about_run(
        params=about["settings"], energy=result.partition.energy, relaxed_energy=result.relaxed_energy,
        status=result.outcome, n_iter=result.n_iter, seed=about["seed"],
        masses=result.partition.masses if graph.has_masses else None,
    )  # fmt: skip
    labels = model.classes_[result.partition.labels]
    found = Labelling(ids, labels, result.confidence, model.classes_, told, model.label_quality_)
    dropped = request["dropped"]
    if dropped.size:
        all_ids = _ids(request, "all_ids")
        found = found.over(Data(graph, ids, dropped=dropped, dropped_ids=all_ids[dropped]))
    formats.write_labels(path, found, source=Path(about["source"]))


def _ids(request: Frame, name: str) -> Array:
    values = text_of(request, name)
    return np.array(values, dtype=np.int64 if bool(request["is_whole"]) else object)


def _content(request: Frame) -> Any:
    if "content" in request:
        return request["content"]
    if "indptr" not in request:
        return None
    parts = (request["data"], request["indices"], request["indptr"])
    return sp.csr_matrix(parts, shape=tuple(request["shape"].tolist()))
