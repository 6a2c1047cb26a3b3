"""Files that are made to do harm: headers that lie, a few bytes that declare billions of cells, packed nothing, links
into other files. Each is refused in a sentence, before memory is taken for it, and no other file is read or changed.
"""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tautcut import memory
from tautcut.cli import main
from tautcut.errors import InputError, NotEnoughMemoryError
from tautcut.formats import read, read_labels
from tautcut.formats.base import reading
from tautcut.formats.numerals import counts_by_line, numbers

h5py = pytest.importorskip("h5py")
pytest.importorskip("anndata")
pyarrow = pytest.importorskip("pyarrow")

N = 12
LITTLE = 2 * 10**7  # bytes


def refused(path, words=None, **options):
    """The sentence about a file that is not read."""
    with pytest.raises(InputError, match=words) as error:
        read(path, **options)
    return str(error.value)


def refused_for_memory(path, room=LITTLE, **options):
    with memory.limited(room), pytest.raises(NotEnoughMemoryError, match=r"of memory|MiB") as error:
        read(path, **options)
    return str(error.value)


# ---------------------------------------------------------------- Matrix Market and METIS

BANNER = b"%%MatrixMarket matrix coordinate real symmetric\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\0\n", r"must hold numbers .* found '\\x00'"),
        (b"%%MatrixMarket matrix array real general\n0 2\n1\n", "0 rows and 2 columns"),
        (b"%%MatrixMarket matrix array real general\n100000 100000\n1.0\n", "announces 10,000,000,000 entries"),
        (BANNER + b"10000000000 10000000000 1\n2 1 1\n", "declares 10,000,000,000 .* holds 1 entries"),
        (BANNER + b"100000000 100000000 2\n2 1 1.0\n3 2 1.0\n", "declares 100,000,000"),
        (BANNER + b"3 3 4611686018427387904\n2 1 1\n", "announces 4,611,686,018,427,387,904 entries"),
        (BANNER + b"3 3 2\n2 1\n3 2 1 1\n", "must have 3 numbers"),
        (b"%%MatrixMarket matrix array real general\n2 1\n1 2\n", "must have 1 numbers"),
        (BANNER + b"3 3\n2 1 1\n", "are missing"),
        (BANNER + b"9" * 5000 + b" 3 1\n2 1 1\n", "declares 999,999"),
        (b"%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 1\n", "real numbers"),
        (b"%%MatrixMarket vector coordinate real general\n2 1\n1 1\n", "must be a matrix"),
        (b"%%MatrixMarket", "begins"),
        (b"", "begins ''"),
    ],
)
def test_matrix_market_is_checked_before_scipy_sees_it(tmp_path, content, words):
    (tmp_path / "a.mtx").write_bytes(content)
    refused(tmp_path / "a.mtx", words)


def test_empty_rows_are_foreseen(tmp_path):
    (tmp_path / "a.mtx").write_bytes(BANNER + b"3000000 3000000 2\n2 1 1.0\n3 2 1.0\n")
    said = refused_for_memory(tmp_path / "a.mtx")
    assert "3,000,000 vertices" in said
    assert "19.1 MiB are to be had" in said


def test_matrix_market_in_every_ordinary_form(tmp_path):
    lines = "%%MatrixMarket matrix coordinate integer general\r\n% a comment\r\n\r\n2 3 2\r\n1 1 4\r\n\r\n2 3 5"
    (tmp_path / "a.mtx").write_text(lines, newline="")
    assert read(tmp_path / "a.mtx").content.toarray().tolist() == [[4, 0, 0], [0, 0, 5]]
    (tmp_path / "b.mtx").write_text("%%MatrixMarket matrix array real symmetric\n2 2\n0\n1.5\n0\n")
    assert read(tmp_path / "b.mtx").content.to_scipy().toarray().tolist() == [[0, 1.5], [1.5, 0]]


@pytest.mark.parametrize("word", ["inf", "nan", "-inf"])
def test_entries_of_sparse_features_are_finite(tmp_path, word):
    text = f"%%MatrixMarket matrix coordinate real general\n3 2 2\n1 1 1\n3 2 {word}\n"
    (tmp_path / "a.mtx").write_text(text)
    refused(tmp_path / "a.mtx", f"found {word} in row 2, column 1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1000000000000000000 0\n\n", "announces 1000000000000000000 vertices"),
        (b"2 1\n2\n1-1\n", "must hold numbers; found '1-1'"),
        (b"2 1\n2\n1e\n", "must hold numbers; found '1e'"),
        (b"2 1\n2\n\0 1\n", "must hold numbers"),
        (b"2 1 011 1000000000000\n2\n1\n", "1000000000000 weights for each vertex"),
    ],
)
def test_metis_is_checked(tmp_path, content, words):
    (tmp_path / "a.graph").write_bytes(content)
    refused(tmp_path / "a.graph", words)


def test_empty_lines_of_metis_take_little(tmp_path):
    (tmp_path / "a.graph").write_bytes(b"% none\r\n100000 0\r\n" + b"\r\n" * 100_000)
    tracemalloc.start()
    assert read(tmp_path / "a.graph").content.n_vertices == 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7
    refused_for_memory(tmp_path / "a.graph", room=10**6)


@given(st.lists(st.lists(st.floats(allow_nan=False), max_size=4), max_size=6), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_numbers_are_those_of_the_lines(lines, end):
    text = end.join(" ".join(map(repr, line)) for line in lines).encode()
    counts = counts_by_line(text)
    assert counts.tolist() == [len(line.split()) for line in text.splitlines()]
    assert numbers(text, counts, "a.graph").tolist() == [one for line in lines for one in line]


def test_words_are_counted_across_blocks(monkeypatch):
    monkeypatch.setattr("tautcut.formats.numerals._BLOCK", 3)
    assert counts_by_line(b"12 345\n\n6 7 8\n 9").tolist() == [2, 0, 3, 1]


# ---------------------------------------------------------------- NumPy


def npy(header, body=b"\0" * 64, version=(1, 0)):
    raw = header.encode("latin-1")
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version == (1, 0) else "<I", len(raw)) + raw + body


def header(shape, descr="'<f8'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x93NUMPY\x01\x00\x01\x00(", "cannot be read as a .npy array"),
        (npy("{" * 200), "cannot be read"),
        (npy("(" * 3000 + ")" * 3000), "cannot be read"),
        (npy(header("(1000000000, 1000)")), "takes 8,000,000,000,000 bytes, and 64 are there"),
        (npy(header("(9223372036854775807, 2)")), "are there"),
        (npy(header("(-1, 4)")), r"its shape is \(-1, 4\)"),
        (npy(header("(1000000000000,)", "'<U0'")), "are there"),
        (npy(header("(4, 2)", "'|O'")), "pickled objects"),
        (npy(header("(4, 2)"), version=(9, 9)), "only support|version"),
    ],
)
def test_a_header_of_numpy_is_compared_with_the_file(tmp_path, content, words):
    (tmp_path / "a.npy").write_bytes(content)
    refused(tmp_path / "a.npy", words)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", content)
    refused(tmp_path / "a.npz", words.replace("a .npy array", "a .npz file"))


def test_a_header_of_python_2_is_read_without_a_word(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(header("(4L, 2L)"), np.arange(8.0).tobytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path / "a.npy").content[3, 1] == 7


@pytest.mark.parametrize("way", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_stream_inside_an_npz_is_told(tmp_path, way):
    content = io.BytesIO()
    np.save(content, np.arange(200.0).reshape(50, 4))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", way) as archive:
        archive.writestr("X.npy", content.getvalue())
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[45:75] = b"\xff" * 30  # behind the member's name
    (tmp_path / "a.npz").write_bytes(whole)
    refused(tmp_path / "a.npz", "cannot be read as a .npz file")


def test_zeros_that_are_packed_well_are_foreseen(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((3000, 4000)))
    assert (tmp_path / "a.npz").stat().st_size < 10**6
    assert "shape (3000, 4000), would take" in refused_for_memory(tmp_path / "a.npz")


def test_arrays_that_are_not_asked_for_are_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("other.npy", npy(header("(1000000000, 1000)", "'|V9'")))
        archive.writestr("only.npy", npy(header("(4, 2)"), np.arange(8.0).tobytes()))
    assert read(tmp_path / "a.npz").content.shape == (4, 2)


@pytest.mark.parametrize("shape", [(36, 2**63 - 1), (36, 10**12), (10**9, 10**9)])
def test_sparse_parts_with_absurd_sides(tmp_path, shape):
    W = sp.random(36, 36, 0.2, format="csr", random_state=0)
    np.savez(tmp_path / "a.npz", data=W.data, indices=W.indices, indptr=W.indptr, shape=np.array(shape))
    refused(tmp_path / "a.npz", "declares|cannot be read")
    np.savez(tmp_path / "b.npz", format=b"coo", data=W.data, row=W.indices, col=W.indices, shape=np.array(shape),
             indices=W.indices, indptr=W.indptr)  # fmt: skip
    refused(tmp_path / "b.npz", "declares")
    np.savez(tmp_path / "c.npz", format=b"dia", data=np.ones((1, 5)), offsets=[0], shape=np.array(shape),
             indices=W.indices, indptr=W.indptr)  # fmt: skip
    refused(tmp_path / "c.npz", "declares|cannot be read")


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
def test_every_form_of_scipy_is_read(tmp_path, form):
    W = sp.diags_array([1.0, 2.0, 1.0], offsets=1, shape=(4, 4))
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(W + W.T).asformat(form))
    assert read(tmp_path / "a.npz").content.weights.tolist() == [1, 1, 2, 2, 1, 1]


def test_a_large_dense_matrix_is_compared_with_its_mirror_in_blocks(tmp_path, monkeypatch):
    W = np.random.default_rng(0).integers(0, 2, (40, 40)).astype(np.uint8)
    W = np.triu(W, 1) + np.triu(W, 1).T
    np.save(tmp_path / "a.npy", W)
    monkeypatch.setattr("tautcut.formats.base._BLOCK", 200)
    assert read(tmp_path / "a.npy").kind == "graph"
    W[39, 38] += 1
    np.save(tmp_path / "a.npy", W)
    assert read(tmp_path / "a.npy").kind == "features"


# ---------------------------------------------------------------- AnnData


@pytest.fixture
def cells(tmp_path):
    """A small .h5ad file with a graph to come in `obsp`, and one that must not be touched."""
    import anndata
    import pandas as pd

    rng = np.random.default_rng(0)
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * (N // 2))}, index=[f"c{i}" for i in range(N)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("in.h5ad", "other.h5ad"):
            anndata.AnnData(rng.normal(size=(N, 3)), obs=obs.copy()).write_h5ad(tmp_path / name)
    with h5py.File(tmp_path / "other.h5ad", "r+") as file:
        file["x"] = np.arange(3.0 * N).reshape(N, 3)
    return tmp_path / "in.h5ad"


def as_array(dataset, encoding="array"):
    dataset.attrs["encoding-type"], dataset.attrs["encoding-version"] = encoding, "0.2.0"


def _link(name):
    def make(file, other):
        if name in file:
            del file[name]
        file[name] = h5py.ExternalLink(str(other), "/x")

    return make


def _soft_link(file, other):
    file["uns/far"] = h5py.SoftLink("/obs")


def _through_a_soft_link(file, other):
    file["way"] = h5py.ExternalLink(str(other), "/")
    del file["obsm"]
    file["obsm"] = h5py.SoftLink("/way/obsm")


def _virtual(file, other):
    del file["X"]
    layout = h5py.VirtualLayout(shape=(N, 3), dtype="f8")
    layout[:] = h5py.VirtualSource(str(other), "x", shape=(N, 3))
    as_array(file.create_virtual_dataset("X", layout))


def _external(file, other):
    del file["X"]
    as_array(file.create_dataset("X", shape=(N, 3), dtype="u1", external=[(str(other), 0, 3 * N)]))


def _deep_inside(file, other):
    part = file.create_group("uns/a/b/c")
    part.create_dataset("d", shape=(N,), dtype="u1", external=[(str(other), 0, N)])


@pytest.mark.parametrize(
    "make",
    [_link("X"), _link("obsm"), _link("uns"), _link("obs/kind/categories"), _link("raw"), _soft_link,
     _through_a_soft_link, _virtual, _external, _deep_inside],
)  # fmt: skip
def test_no_other_file_is_read_or_changed(cells, monkeypatch, capsys, make):
    from tautcut.formats import annotated

    other = cells.with_name("other.h5ad")
    with h5py.File(cells, "r+") as file:
        make(file, other)
    before = other.read_bytes()
    refused(cells, "is refused: .* (is a link to somewhere else|lies in another file)")
    with pytest.raises(SystemExit) as exit_:
        main(["cluster", str(cells), "-k", "2", "--out", str(cells.with_name("out.h5ad"))])
    assert exit_.value.code == 2
    with pytest.raises(InputError, match="is refused"):  # whatever happened since it was read
        annotated.write_h5ad(cells.with_name("out.h5ad"), cells, {"obs": {"a": np.arange(N)}, "uns": {"b": {"c": 1}}})
    assert other.read_bytes() == before


def test_groups_that_hold_each_other_are_walked_once(cells):
    with h5py.File(cells, "r+") as file:
        file["uns/a"] = file["/"]
        file["uns/b/c"] = file["uns"]
    assert read(cells).content.shape == (N, 3)


def _lying_encoding(file):
    file["X"].attrs["encoding-type"] = "csr_matrix"


def _one_dimension(file):
    del file["X"]
    file["X"] = np.zeros(N)
    as_array(file["X"])


def _texts_for_numbers(file):
    del file["X"]
    file["X"] = np.array([b"\x80\x04c"] * N)
    as_array(file["X"])


def _codes_without_categories(file):
    file["obs/kind/codes"][0] = 99


def _names_of_two_dimensions(file):
    del file["obs/_index"]
    file["obs/_index"] = np.zeros((N, 2))
    as_array(file["obs/_index"])


def _no_shape(file):
    del file["X"]
    file["X"] = h5py.Empty("f8")
    as_array(file["X"])


@pytest.mark.parametrize(
    "make",
    [_lying_encoding, _one_dimension, _texts_for_numbers, _codes_without_categories, _names_of_two_dimensions,
     _no_shape],
)  # fmt: skip
def test_anndata_that_is_not_what_it_says(cells, make):
    with h5py.File(cells, "r+") as file:
        make(file)
    refused(cells, str(cells))


def test_a_dataset_without_storage_is_foreseen(cells):
    with h5py.File(cells, "r+") as file:
        del file["X"]
        as_array(file.create_dataset("X", shape=(N, 10**9), dtype="f8", chunks=True))
    assert "would take" in refused_for_memory(cells)


def test_a_block_that_unpacks_to_more_than_it_says(cells):
    with h5py.File(cells, "r+") as file:
        del file["X"]
        dataset = file.create_dataset("X", shape=(N, 3), dtype="f8", chunks=(N, 3), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), zlib.compress(bytes(3 * 10**7)))
        as_array(dataset)
    with memory.limited(LITTLE):
        refused(cells, "unpacks to more than it says")


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_texts_are_foreseen_however_they_are_stored(tmp_path, compression):
    from tautcut.formats import annotated

    words = [f"cell {i}" for i in range(300)] + ["long " * 1000]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunks = None if compression is None else (100,)
        dataset = file.create_dataset(
            "t", data=words, dtype=h5py.string_dtype(), chunks=chunks, compression=compression
        )
        as_array(dataset, "string-array")
        expected = None if compression == "lzf" else sum(map(len, words))
        file.flush()
        assert annotated._n_letters(dataset, tmp_path / "a.h5") == expected
        with memory.limited(10**5):  # blocks of a few texts, where nothing is known of their lengths
            assert annotated._column(file, "t", tmp_path / "a.h5") == words
        with memory.limited(2 * 10**4), pytest.raises(NotEnoughMemoryError):
            annotated._column(file, "t", tmp_path / "a.h5")


def test_one_long_text_that_many_cells_refer_to(cells):
    with h5py.File(cells, "r+") as file:
        del file["obs/_index"]
        names = file.create_dataset("obs/_index", data=["x" * 10**6] + ["y"] * (N - 1), dtype=h5py.string_dtype())
        as_array(names, "string-array")
        file.flush()
        offset = names.id.get_offset()
    raw = bytearray(cells.read_bytes())
    raw[offset : offset + 16 * N] = raw[offset : offset + 16] * N
    cells.write_bytes(raw)
    assert read(cells).ids[N - 1] == "x" * 10**6
    refused_for_memory(cells)


def test_a_heap_without_an_end(cells):
    raw = bytearray(cells.read_bytes())
    at = raw.index(b"GCOL") + 16
    raw[at : at + 16] = bytes(16)
    cells.write_bytes(raw)
    refused(cells, "a heap of texts at byte .* has no end")


# ---------------------------------------------------------------- text


def test_a_long_note_takes_the_room_of_one(tmp_path):
    rows = [f"p{i},{i % 7},{'word ' * (2 if i != 77 else 20_000)}" for i in range(2000)]
    (tmp_path / "a.csv").write_text("\n".join(["id,a,note", *rows]))
    tracemalloc.start()
    data = read(tmp_path / "a.csv")
    assert len(data.others()["note"][77]) > 90_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7  # 2,000 texts of fixed width would take 800 MB


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"1," * 20_000 + b"1\n"),
        ("a.txt", b"1 " * 20_000),
        ("a.csv", b"a,b\n" + b"1,2\n" * 300_000),
        ("a.edges", b"".join(b"%d %d\n" % (i, i + 1) for i in range(100_000))),
    ],
)
def test_cells_and_columns_are_foreseen(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert len(content) < LITTLE / 4
    refused_for_memory(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"\n" * 300_000, b"#\n" * 150_000, b"#\r\n" * 100_000 + b"1.5,2\r\n3.5,5\r\n4,4\r\n"]
)
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_lines_of_nothing_take_no_memory(tmp_path, content, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    tracemalloc.start()
    if content.endswith(b"4\r\n"):
        assert read(path, kind="features").content.shape == (3, 2)
    else:
        refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * len(content) + 10**7


def test_known_labels_are_read_line_by_line(tmp_path):
    (tmp_path / "l.csv").write_text("a,1\nb,2\n")
    assert read_labels(tmp_path / "l.csv", np.array(["b", "a"], dtype=object)).tolist() == [2, 1]


# ---------------------------------------------------------------- Parquet and workbooks


def _parquet(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)


def _coded(n, *texts):
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(texts))


def test_rows_that_parquet_packs_to_nothing(tmp_path):
    _parquet(tmp_path / "a.parquet", x=_coded(10**6, 1.0))
    assert (tmp_path / "a.parquet").stat().st_size < 10**4
    assert "1,000,000 rows and 1 columns, would take" in refused_for_memory(tmp_path / "a.parquet")


def test_one_long_text_in_every_row_of_parquet(tmp_path):
    _parquet(tmp_path / "a.parquet", s=_coded(1000, "q" * 100_000), x=np.arange(1000) % 7)
    assert "A column of 1,000 texts" in refused_for_memory(tmp_path / "a.parquet")
    _parquet(tmp_path / "b.parquet", id=_coded(1000, "q" * 100), x=np.arange(1000) % 7)
    with memory.limited(LITTLE):
        assert read(tmp_path / "b.parquet").ids[999] == "q" * 100


def test_lists_in_parquet_are_left_out(tmp_path):
    _parquet(tmp_path / "a.parquet", x=np.arange(9.0), s=[[1, 2]] * 9)
    data = read(tmp_path / "a.parquet", keep=["x"])
    assert data.content.shape == (9, 1)
    assert data.others()["s"][0] == ""


def test_lists_over_which_arrow_ends_the_process_are_a_sentence(tmp_path, monkeypatch):
    _parquet(tmp_path / "a.parquet", x=np.arange(9.0), s=[[1, 2]] * 9)
    (tmp_path / "dies.py").write_text("import os\nos.abort()\n")
    monkeypatch.setattr("tautcut.formats.footer.__file__", str(tmp_path / "dies.py"))
    with pytest.raises(InputError, match="cannot be read as a Parquet file: its reader ended by 6"):
        read(tmp_path / "a.parquet")


def test_a_cell_at_the_end_of_a_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active.append([1, 2])
    book.active.cell(1_048_576, 16_384, 1)
    book.save(tmp_path / "a.xlsx")
    assert "save its cells as .csv" in refused_for_memory(tmp_path / "a.xlsx", room=10**8)


# ---------------------------------------------------------------- documents, and what is packed


def test_tags_are_foreseen(tmp_path):
    (tmp_path / "a.graphml").write_text("<graphml>" + '<a b=""/>' * 50_000 + "</graphml>")
    assert "50,002 tags" in refused_for_memory(tmp_path / "a.graphml")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.graphml", "<graphml>" + "<graph>" * 50_000 + "</graph>" * 50_000 + "</graphml>"),
        ("a.gml", "graph [ " + "a [ " * 50_000 + "] " * 50_000 + "]\n"),
        ("a.edgelist", "1 2 {}\n1 3 " + "{1:" * 50_000 + "\n"),
    ],
)
def test_deep_nesting_is_a_sentence(tmp_path, name, content):
    pytest.importorskip("networkx")
    (tmp_path / name).write_text(content)
    refused(tmp_path / name, name)
    if not name.endswith("graphml"):
        assert "networkx" in refused_for_memory(tmp_path / name, room=10**6)


def test_packed_nothing_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"\n" * 10**7))
    assert "a.csv.gz' unpacks to more than" in refused_for_memory(tmp_path / "a.csv.gz", room=10**6)
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv.gz"]


# ---------------------------------------------------------------- what is said, and what is not


def test_a_system_without_memory_is_told_and_our_own_mistakes_pass(tmp_path):
    with (
        pytest.raises(NotEnoughMemoryError, match=r"a\.csv' needs more memory"),
        reading(tmp_path / "a.csv", "a table"),
    ):
        raise MemoryError("Unable to allocate 9 GiB")
    with pytest.raises(InputError, match="cannot be read"), reading(tmp_path / "a.csv", "a table"):
        raise pyarrow.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
    with pytest.raises(NameError), reading(tmp_path / "a.csv", "a table"):
        raise NameError("of a variable")


@pytest.mark.parametrize(
    "command", [["cluster", "-k", "2"], ["graph"], ["suggest"], ["classify", "--label-column", "y"]]
)
def test_memory_is_an_option_of_every_command_that_reads(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", X=np.zeros((100, 100)), y=np.zeros(100))
    for size, words in (("50kB", "would take 0.2 MiB of memory"), ("much", "--memory must be a size, as 500MB or 4GB")):
        with pytest.raises(SystemExit) as exit_:
            main([*command, "a.npz", "--memory", size])
        assert exit_.value.code == 2
        assert words in capsys.readouterr().err


def test_sizes_of_memory():
    from tautcut.cli.source import _bytes

    sizes = {"500MB": 5 * 10**8, "4GB": 4 * 10**9, "4GiB": 2**32, "1.5g": 15 * 10**8, "12345": 12345, "1 kB": 1000}
    assert {text: _bytes(text) for text in sizes} == sizes


def test_a_file_object_is_not_left_open(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, X=np.zeros((2, 2)))
    (tmp_path / "a.npz").write_bytes(buffer.getvalue()[:-30])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        refused(tmp_path / "a.npz")
