"""Well-formed files of every format that tautcut reads, as bytes, small and the same for the same generator. They are
what mutations start from; nothing in here is hostile.
"""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape

import numpy as np
import scipy.io
import scipy.sparse as sp

N, D = 36, 4  # points and features of a specimen
SHEETS = "http://schemas.openxmlformats.org"


def points(rng: np.random.Generator) -> np.ndarray:
    """Two clouds."""
    X = rng.normal(size=(N, D)).round(3)
    X[: N // 2] += 4
    return X


def graph(rng: np.random.Generator) -> sp.csr_matrix:
    """Each point with its five nearest."""
    X = points(rng)
    nearest = np.argsort(((X[:, None] - X[None]) ** 2).sum(-1), axis=1)[:, 1:6]
    W = np.zeros((N, N))
    W[np.arange(N)[:, None], nearest] = 1.0
    return sp.csr_matrix(np.maximum(W, W.T))


def edges(rng: np.random.Generator) -> list[tuple[int, int]]:
    upper = sp.triu(graph(rng)).tocoo()
    return list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))


def some_labels() -> list[str]:
    return ["" if i % 4 else "ab"[2 * i >= N] for i in range(N)]


def masses(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, 9, N)


def saved(write: Callable[..., None], *content: object, **named: object) -> bytes:
    """What a function that writes to an open file has written."""
    file = io.BytesIO()
    write(file, *content, **named)
    return file.getvalue()


def npy(rng: np.random.Generator) -> bytes:
    X = points(rng)
    arrays: list[Callable[[], np.ndarray]] = [
        lambda: X,
        lambda: X.astype(np.float16),
        lambda: (X * 10).astype(np.int8),
        lambda: np.asfortranarray(X),
        lambda: X.astype(">f8"),
        lambda: X > 1,
        lambda: np.abs(X).reshape(N, 2, 2),
        lambda: graph(rng).toarray(),
    ]
    return saved(np.save, arrays[rng.integers(len(arrays))]())


def npz(rng: np.random.Generator) -> bytes:
    X, W = points(rng), graph(rng)
    y = np.where(np.arange(N) % 5 == 0, np.arange(N) // (N // 2), -1)
    form = ("coo", "csc", "bsr", "dia")[rng.integers(4)]
    ways: list[Callable[[], bytes]] = [
        lambda: saved(np.savez, X=X, y=y),
        lambda: saved(np.savez_compressed, X=X, y=y),
        lambda: saved(sp.save_npz, W),
        lambda: saved(sp.save_npz, W.asformat(form)),
        lambda: saved(np.savez, data=W.data, indices=W.indices, indptr=W.indptr, shape=W.shape, y=y),
        lambda: saved(np.savez, indices=W.indices, indptr=W.indptr, shape=W.shape, y=y, masses=masses(rng)),
        lambda: saved(np.savez, only=X),
    ]
    return ways[rng.integers(len(ways))]()


def mtx(rng: np.random.Generator) -> bytes:
    W = graph(rng)
    ways: list[Callable[[], bytes]] = [
        lambda: saved(scipy.io.mmwrite, W),
        lambda: saved(scipy.io.mmwrite, points(rng)),
        lambda: saved(scipy.io.mmwrite, sp.tril(W), symmetry="symmetric"),
        lambda: saved(scipy.io.mmwrite, W.astype(int), field="integer"),
        lambda: saved(scipy.io.mmwrite, W, field="pattern"),
    ]
    return ways[rng.integers(len(ways))]()


def table(rng: np.random.Generator, separator: str) -> bytes:
    """A table of text: with or without ids and a head, in one of the encodings that people have."""
    has_ids, has_head, has_gaps = rng.random() < 0.7, rng.random() < 0.8, rng.random() < 0.2
    encoding = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16")[rng.integers(7)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=separator, lineterminator=("\n", "\r\n")[rng.integers(2)])
    if has_head:
        writer.writerow(
            ["id"] * has_ids + [f"größe{j}" if encoding != "utf-8" else f"f{j}" for j in range(D)] + ["label"]
        )
    for i, (row, label) in enumerate(zip(points(rng).tolist(), some_labels(), strict=True)):
        cells = ["NA" if has_gaps and rng.random() < 0.02 else cell for cell in row]
        writer.writerow([f"p{i}"] * has_ids + cells + [label])
    return out.getvalue().encode(encoding)


def text(rng: np.random.Generator) -> bytes:
    return saved(np.savetxt, points(rng)) if rng.random() < 0.5 else edge_list(rng)


def edge_list(rng: np.random.Generator) -> bytes:
    weight = " 1.5" if rng.random() < 0.5 else ""
    return "".join(f"{i} {j}{weight}\n" for i, j in edges(rng)).encode()


def networkx_edge_list(rng: np.random.Generator) -> bytes:
    weight = (" {'weight': 1.5}", " {}", "")[rng.integers(3)]
    return "".join(f"{i} {j}{weight}\n" for i, j in edges(rng)).encode()


def metis(rng: np.random.Generator) -> bytes:
    W = graph(rng)
    has_masses = rng.random() < 0.5
    heads = [f"{mass} " if has_masses else "" for mass in masses(rng)]
    rows = (heads[i] + " ".join(str(j + 1) for j in W.indices[W.indptr[i] : W.indptr[i + 1]]) for i in range(N))
    return "\n".join([f"{N} {W.nnz // 2}{' 010' if has_masses else ''}", *rows, ""]).encode()


def graphml(rng: np.random.Generator) -> bytes:
    heads = [f'<data key="m">{mass}</data>' for mass in masses(rng)] if rng.random() < 0.5 else [""] * N
    nodes = "".join(f'<node id="n{i}">{heads[i]}<data key="c">{"ab"[2 * i >= N]}</data></node>\n' for i in range(N))
    lines = "".join(f'<edge source="n{i}" target="n{j}"><data key="w">1.5</data></edge>\n' for i, j in edges(rng))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '<key id="w" for="edge" attr.name="weight" attr.type="double"><default>1</default></key>\n'
        '<key id="c" for="node" attr.name="label" attr.type="string"/>\n'
        '<key id="m" for="node" attr.name="mass" attr.type="double"><default>1</default></key>\n'
        f'<graph edgedefault="undirected">\n{nodes}{lines}</graph></graphml>\n'
    ).encode()


def gml(rng: np.random.Generator) -> bytes:
    has_labels = rng.random() < 0.5
    heads = [f"mass {mass} " for mass in masses(rng)] if rng.random() < 0.5 else [""] * N
    nodes = "".join(f'node [ id {i} {heads[i]}{f"""label "v{i}" """ if has_labels else ""}]\n' for i in range(N))
    lines = "".join(f"edge [ source {i} target {j} weight 1.5 ]\n" for i, j in edges(rng))
    return f"graph [\n{nodes}{lines}]\n".encode()


def gexf(rng: np.random.Generator) -> bytes:
    nodes = "".join(f'<node id="{i}" label="v{i}"/>\n' for i in range(N))
    lines = "".join(f'<edge id="{k}" source="{i}" target="{j}" weight="1.5"/>\n' for k, (i, j) in enumerate(edges(rng)))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">\n'
        f'<graph defaultedgetype="undirected"><nodes>\n{nodes}</nodes><edges>\n{lines}</edges></graph></gexf>\n'
    ).encode()


def parquet(rng: np.random.Generator) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = points(rng)
    columns: dict[str, object] = {f"f{j}": X[:, j] for j in range(D)}
    if rng.random() < 0.7:
        columns["id"] = [f"p{i}" for i in range(N)]
    columns["label"] = ["a" if i < N // 2 else None for i in range(N)]
    compression = ("none", "snappy", "zstd", "gzip")[rng.integers(4)]
    return saved(lambda file: pq.write_table(pa.table(columns), file, compression=compression))


def xlsx(rng: np.random.Generator) -> bytes:
    head = ["id", *(f"f{j}" for j in range(D)), "label"]
    rows = [
        [f"p{i}", *row, label] for i, (row, label) in enumerate(zip(points(rng).tolist(), some_labels(), strict=True))
    ]
    return workbook("".join(f"<row>{''.join(map(_cell, row))}</row>" for row in [head, *rows]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"<c><v>{value}</v></c>"
    return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'


def workbook(rows: str, *, before: str = "", prologue: str = "", others: Mapping[str, bytes] | None = None) -> bytes:
    """A workbook of one sheet: `rows` of it in XML, what stands before them, and further files in the archive."""
    head = '<?xml version="1.0" encoding="UTF-8"?>' + prologue
    relation = f"{SHEETS}/officeDocument/2006/relationships"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    files = {
        "[Content_Types].xml": f'{head}<Types xmlns="{SHEETS}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'{head}<Relationships xmlns="{SHEETS}/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{relation}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'{head}<workbook xmlns="{SHEETS}/spreadsheetml/2006/main" xmlns:r="{relation}">'
        '<sheets><sheet name="data" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{head}<Relationships xmlns="{SHEETS}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relation}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'{head}<worksheet xmlns="{SHEETS}/spreadsheetml/2006/main">'
        f"{before}<sheetData>{rows}</sheetData></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, **(others or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # without the time of day
    return file.getvalue()


def h5ad(rng: np.random.Generator) -> bytes:
    import anndata
    import h5py
    import pandas as pd

    names = [f"c{i}" for i in range(N)]
    obs = pd.DataFrame({"label": pd.Categorical(["ab"[2 * i >= N] for i in range(N)])}, index=names)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cells = anndata.AnnData(points(rng).astype(np.float32), obs=obs)
        if rng.random() < 0.6:
            cells.obsm["X_pca"] = points(rng)[:, :2]
        if rng.random() < 0.5:
            cells.obsp["connectivities"] = graph(rng)
        with h5py.File(file, "w") as store:
            anndata.io.write_elem(store, "/", cells)
    return file.getvalue()


SPECIMENS: dict[str, Callable[[np.random.Generator], bytes]] = {
    ".npy": npy,
    ".npz": npz,
    ".mtx": mtx,
    ".csv": lambda rng: table(rng, ",;"[rng.integers(2)]),
    ".tsv": lambda rng: table(rng, "\t"),
    ".txt": text,
    ".dat": text,
    ".edges": edge_list,
    ".edgelist": networkx_edge_list,
    ".graph": metis,
    ".graphml": graphml,
    ".gml": gml,
    ".gexf": gexf,
    ".parquet": parquet,
    ".xlsx": xlsx,
    ".h5ad": h5ad,
}
SUFFIXES = tuple(SPECIMENS)
TEXTS = (".mtx", ".csv", ".tsv", ".txt", ".dat", ".edges", ".edgelist", ".graph", ".graphml", ".gml", ".gexf")
