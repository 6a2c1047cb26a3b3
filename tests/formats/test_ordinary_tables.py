"""Tables as people bring them: written by spreadsheets, by R, by hand, in other countries; with keys, gaps and notes.
Each is read as its writer meant it, with a sentence about what was decided, or refused with a sentence that helps.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys

import numpy as np
import pytest

from tautcut.errors import InputError
from tautcut.formats import Labelling, read, read_labels, write_labels
from tautcut.formats.cells import is_missing, is_number


def put(folder, name: str, text: str | bytes):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def block(header: str, row: str, n: int = 12) -> str:
    """A header and n rows, in which {i} counts."""
    return header + "".join(row.format(i=i, odd=i % 2, h=i / 2) for i in range(n))


EXPECTED = [
    # ------------------------------------------------ separators
    ("semicolons.csv", "a;b\n1;2\n3;4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("bars.csv", "a|b\n1|2\n3|4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("bars.txt", "a|b\n1.5|2\n3|4\n", ("a", "b"), [[1.5, 2], [3, 4]], ""),
    ("tabs.csv", "a\tb\n1\t2\n3\t4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("commas.tsv", "a,b,c\n1,2,3\n3,4,3\n", ("a", "b", "c"), [[1, 2, 3], [3, 4, 3]], ""),
    ("blanks.txt", "a  b   c\n1  2   3\n3  4   5.5\n", ("a", "b", "c"), [[1, 2, 3], [3, 4, 5.5]], ""),
    ("blanks.csv", "1.5 2 1\n3 4 1\n", ("0", "1", "2"), [[1.5, 2, 1], [3, 4, 1]], ""),
    ("uci.data", "5.1,3.5,Iris-a\n4.9,3.0,Iris-a\n", ("0", "1"), [[5.1, 3.5], [4.9, 3]], "hold text"),
    ("spaces.csv", 'a, b, c\n1, 2, "x, y"\n3, 4, "z"\n', ("a", "b"), [[1, 2], [3, 4]], ""),
    ("sep.csv", "sep=;\na;b\n1,5;2\n3,5;4\n", ("a", "b"), [[1.5, 2], [3.5, 4]], "decimal commas"),
    # ------------------------------------------------ decimal signs and thousands
    ("german.csv", "a;b\n5,1;3\n4,9;2\n", ("a", "b"), [[5.1, 3], [4.9, 2]], "decimal commas"),
    ("german_no_header.csv", "5,1;3,5\n4,9;2,5\n", ("0", "1"), [[5.1, 3.5], [4.9, 2.5]], "decimal commas"),
    ("german.tsv", "a\tb\n5,1\t3,0\n4,9\t2,0\n", ("a", "b"), [[5.1, 3], [4.9, 2]], "decimal commas"),
    ("german_blanks.txt", "5,1 3,5 1\n4,9 2,5 1\n", ("0", "1", "2"), [[5.1, 3.5, 1], [4.9, 2.5, 1]], "decimal commas"),
    ("quoted.csv", 'a,b\n"5,1","3,25"\n"4,9","2,5"\n', ("a", "b"), [[5.1, 3.25], [4.9, 2.5]], "decimal commas"),
    ("money_de.csv", "a;b\n1.234,5;1.234\n12,0;2.500\n", ("a", "b"), [[1234.5, 1234], [12, 2500]], "thousands"),
    ("money_en.csv", 'a,b\n"1,234.5",1\n"12.0",2\n', ("a", "b"), [[1234.5, 1], [12, 2]], "thousands"),
    ("whole_en.csv", 'a,b\n"1,234",1.5\n987,2.5\n', ("a", "b"), [[1234, 1.5], [987, 2.5]], "thousands"),
    ("millions.csv", 'a,b\n"1,234,567",1.5\n"2,000,000",2.5\n', ("a", "b"), [[1234567, 1.5], [2e6, 2.5]], "thousands"),
    ("swiss.csv", "a;b\n1'234.5;1\n12.0;2\n", ("a", "b"), [[1234.5, 1], [12, 2]], "thousands"),
    ("french.csv", "a;b\n1\u202f234,5;1\n12,0;2\n", ("a", "b"), [[1234.5, 1], [12, 2]], "decimal commas and thousands"),
    ("nbsp.csv", "a;b\n1\u00a0234,5;1\n12,0;2\n", ("a", "b"), [[1234.5, 1], [12, 2]], "thousands"),
    ("blank_groups.csv", "a;b\n1 234;1\n12 000;2\n", ("a", "b"), [[1234, 1], [12000, 2]], "thousands"),
    ("three_digits.csv", "a;b\n0,125;1,5\n0,250;2,5\n", ("a", "b"), [[0.125, 1.5], [0.25, 2.5]], "decimal commas"),
    ("mixed_signs.csv", "a;b\n1,5;2.5\n2,5;3.5\n", ("a", "b"), [[1.5, 2.5], [2.5, 3.5]], "decimal commas"),
    ("minus.csv", "a,b\n\u22121.5,1\n2,2\n", ("a", "b"), [[-1.5, 1], [2, 2]], ""),
    ("percent.csv", "a,b\n12%,1\n50 %,2\n", ("a", "b"), [[12, 1], [50, 2]], "with %"),
    ("dollars.csv", 'a,b\n"$1,200.50",1\n$3,2\n', ("a", "b"), [[1200.5, 1], [3, 2]], "with $"),
    ("euros.csv", "a;b\n1.200,50 €;1\n3,00 €;2\n", ("a", "b"), [[1200.5, 1], [3, 2]], "with €"),
    ("exponents.csv", "a,b\n1e-3,+.5\n1E+3,5.\n", ("a", "b"), [[1e-3, 0.5], [1e3, 5]], ""),
    ("truths.csv", "a,b\nTrue,1\nFalse,2\n", ("a", "b"), [[1, 1], [0, 2]], ""),
    # ------------------------------------------------ encodings and line ends
    ("latin.csv", "größe,b\n1,2\n3,4\n".encode("latin-1"), ("größe", "b"), [[1, 2], [3, 4]], "Windows-1252"),
    ("windows.csv", "preis €,b\n1,2\n3,4\n".encode("cp1252"), ("preis €", "b"), [[1, 2], [3, 4]], "Windows-1252"),
    ("wide.csv", "größe,b\n1,2\n3,4\n".encode("utf-16"), ("größe", "b"), [[1, 2], [3, 4]], "UTF-16"),
    ("big_wide.csv", b"\xfe\xff" + "a,b\n1,2\n3,4\n".encode("utf-16-be"), ("a", "b"), [[1, 2], [3, 4]], "UTF-16"),
    ("bare_wide.csv", "a,b\n1,2\n3,4\n".encode("utf-16-le"), ("a", "b"), [[1, 2], [3, 4]], "UTF-16"),
    ("mark.csv", "\ufeffa,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("mac.csv", "a,b\r1,2\r3,4\r", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("dos.csv", "a,b\r\n1,2\r\n\r\n3,4\r\n\x1a", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("packed.csv.gz", gzip.compress(b"a,b\n1,2\n3,4\n", mtime=0), ("a", "b"), [[1, 2], [3, 4]], ""),
    ("packed.tsv.bz2", bz2.compress(b"a\tb\n1\t2\n3\t4\n"), ("a", "b"), [[1, 2], [3, 4]], ""),
    ("packed.csv.xz", lzma.compress(b"a,b\n1,2\n3,4\n"), ("a", "b"), [[1, 2], [3, 4]], ""),
    # ------------------------------------------------ headers, comments, leftovers
    ("r.txt", '"a" "b"\n"row 1" 1 2\n"row 2" 3 4\n', ("a", "b"), [[1, 2], [3, 4]], "Ids are in column ''"),
    ("r.csv", "a,b\nx,1,2\ny,3,4\n", ("a", "b"), [[1, 2], [3, 4]], "Ids are in column ''"),
    ("numpy.csv", "# a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("comment.csv", "# made by hand\n#\na,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("tail.csv", "a,b\n1,2\n3,4\n,\n,\n\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("trailing.csv", "a,b,\n1,2,\n3,4,\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("trailing_rows.csv", "a,b\n1,2,\n3,4,\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("lines.csv", 'a,b,note\n1,2,"first\nsecond"\n3,4,"x"\n', ("a", "b"), [[1, 2], [3, 4]], ""),
    ("twice.csv", "a,a\n1,2\n3,4\n", ("a", "a"), [[1, 2], [3, 4]], ""),
    ("years.csv", "name,2019,2020\nx,1,2\ny,3,4\n", ("2019", "2020"), [[1, 2], [3, 4]], ""),
    ("empty_column.csv", "a,b,c\n1,,2\n3,,4\n", ("a", "c"), [[1, 2], [3, 4]], "they are empty: 'b'"),
    ("dates.csv", "day,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n", ("a", "b"), [[1, 2], [3, 4]], ""),
    ("first_gap.csv", "1.5,NA,2\n1.5,3,4\n", ("0", "2"), [[1.5, 2], [1.5, 4]], ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "names", "rows", "words"), EXPECTED, ids=[one[0] for one in EXPECTED])
def test_a_table_is_read_as_it_was_meant(tmp_path, name, text, names, rows, words):
    without = ["1"] if name == "first_gap.csv" else []
    data = read(put(tmp_path, name, text), kind="features", without=without)
    assert data.names == names
    assert data.content.tolist() == rows
    assert words in " ".join(data.notes)


# ---------------------------------------------------------------- missing values


MARKS = [
    "", " ", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "-", "--", "\u2014", ".", "#N/A",
    "<NA>", " NA ", "#DIV/0!", "n.a.", "Missing",
]  # fmt: skip


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_mark_is_a_missing_value_and_told_with_its_place(tmp_path, mark, name):
    sep = "," if name == "t.csv" else "\t"
    rows = [["a", "b", "c"], *(["1.5", "2", "3"] for _ in range(20)), ["7", mark, "3"], ["1", "2", mark]]
    path = put(tmp_path, name, "".join(sep.join(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="2 values are missing, in 2 of the 22 rows") as error:
        read(path)
    assert "line 22, column 'b'" in str(error.value)
    assert "--missing drop" in str(error.value)
    filled = read(path, missing="median")
    assert filled.content[20].tolist() == [7, 2, 3]
    assert "filled with the median" in filled.notes[-1]
    left = read(path, missing="drop")
    assert left.content.shape == (20, 3)
    assert left.ids.tolist() == list(range(20))
    assert left.dropped.tolist() == [20, 21]
    assert left.all_ids.tolist() == list(range(22))
    assert "2 of the 22 rows" in left.notes[-1]


def test_the_line_is_that_of_the_file(tmp_path):
    text = '# a comment\na,b\n1,2\n\n"x\ny",2\n'.replace('"x\ny"', "4") + '1,"2"\n5,NA\n'
    with pytest.raises(InputError, match="line 7, column 'b'"):
        read(put(tmp_path, "t.csv", text))


def test_every_kind_of_file_can_have_gaps(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.arange(12.0).reshape(6, 2) ** 2
    X[3, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X)
    pq.write_table(pa.table({"a": X[:, 0], "b": [None if np.isnan(x) else x for x in X[:, 1]]}), tmp_path / "x.parquet")
    for name in ("x.npy", "x.npz", "x.parquet"):
        with pytest.raises(InputError, match=r"1 value is missing, in 1 of the 6 rows; the first is in row 3, column"):
            read(tmp_path / name)
        assert read(tmp_path / name, missing="drop").dropped.tolist() == [3]
        assert read(tmp_path / name, missing="median").content[3, 1] == np.nanmedian(X[:, 1])


def test_gaps_that_cannot_be_mended(tmp_path):
    path = put(tmp_path, "t.csv", "a,b\n1,\n,2\n")
    with pytest.raises(InputError, match="every row has a missing value"):
        read(path, missing="drop")
    np.save(tmp_path / "t.npy", np.array([[1.0, np.nan], [2.0, np.nan]]))
    with pytest.raises(InputError, match="column 1 holds no value at all"):
        read(tmp_path / "t.npy", missing="median")
    with pytest.raises(InputError, match="missing must be one of error, drop, median; found 'mean'"):
        read(path, missing="mean")
    np.save(tmp_path / "w.npy", np.array([[0, np.nan], [np.nan, 0]]))
    with pytest.raises(InputError, match="weights of a graph cannot be missing"):
        read(tmp_path / "w.npy", kind="graph")


def test_other_words_for_a_missing_value(tmp_path):
    path = put(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 20 + "3,<LOD\n4,offline\n")
    with pytest.raises(InputError) as error:
        read(path)
    for words in ("column 'b'", "2 of its cells are not", "'<LOD'", "line 22", "--na '<LOD'", "--without 'b'"):
        assert words in str(error.value)
    assert read(path, missing="drop", missing_words=["<lod", "offline"]).content.shape == (20, 2)
    assert read(path, without=["b"]).names == ("a",)


@pytest.mark.parametrize("n_odd", [1, 3, 70])
def test_a_column_of_numbers_is_never_left_out_in_silence(tmp_path, n_odd):
    cells = ["oops"] * n_odd + ["1.5"] * (150 - n_odd)
    path = put(tmp_path, "t.csv", "a,b\n" + "".join(f"1.25,{cell}\n" for cell in cells))
    with pytest.raises(InputError, match=f"column 'b' holds numbers, but {n_odd} of its cells"):
        read(path)


def test_labels_line_up_where_rows_were_left_out(tmp_path):
    import json

    import pyarrow.parquet as pq

    data = read(put(tmp_path, "t.csv", "id,a,b\nx,1,2\ny,,2\nz,3,1\n"), missing="drop")
    found = Labelling(data.ids, np.array([0, 1]), np.array([0.5, 1.0]), np.arange(2)).over(data)
    for suffix in (".csv", ".json", ".npy", ".parquet"):
        write_labels(tmp_path / f"l{suffix}", found, source=tmp_path / "t.csv")
    lines = (tmp_path / "l.csv").read_text().splitlines()
    assert lines[1:] == ["x,0,0.5", "y,,", "z,1,1"]
    vertices = json.loads((tmp_path / "l.json").read_text())["vertices"]
    assert vertices[1] == {"id": "y", "label": None, "confidence": None}
    array = np.load(tmp_path / "l.npy", allow_pickle=False)
    assert array["label"].tolist() == [0, -1, 1]
    assert np.isnan(array["confidence"][1])
    assert pq.read_table(tmp_path / "l.parquet")["label"].to_pylist() == [0, None, 1]
    assert read_labels(tmp_path / "l.csv", data.all_ids).tolist() == [0, None, 1]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_what_is_no_feature_is_there_to_be_shown(tmp_path, name):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "id": ["x", "y", "z"],
        "a": [1.5, None, 2],
        "class": ["u", "v", "w"],
        "city": ["r", "p", "r"],
        "b": [1, 1, 2],
    }
    if name == "t.csv":
        rows = [[str("" if cell is None else cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        put(tmp_path, name, "\n".join(",".join(row) for row in [list(columns), *rows]))
    else:
        pq.write_table(pa.table(columns), tmp_path / name)
    data = read(tmp_path / name, missing="drop", without=["b"])
    found = {key: values.tolist() for key, values in data.others().items()}
    assert found == {"class": ["u", "w"], "city": ["r", "r"], "b": ["1", "2"]}


# ---------------------------------------------------------------- keys


KEYS = [
    ("customer", [1000 + i for i in range(12)]),
    ("x", [12 - i for i in range(12)]),
    ("x", [3, 1, 2, 5, 4, 7, 6, 9, 8, 12, 10, 11]),
    ("x", [10 * i for i in range(12)]),
    ("x", [*range(40), *range(42, 80)]),  # two rows were deleted
    ("customer_id", [17, 4000, 23, 999, 5, 61]),
    ("PassengerId", [1, 2, 3]),
    ("Order No", [99, 7, 1]),
]
FEATURES = [
    ("x", [1, 2, 3]),  # too few to tell
    ("x", [1.5 + i for i in range(12)]),
    ("x", [1700000000 + 61 * i * i for i in range(12)]),  # a time
    ("age", [21, 23, 24, 25, 27, 28, 30, 31, 33, 34, 38, 41]),
    ("x", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 12]),
    ("customer_id", [1, 1, 2, 2, 3, 3]),
    ("kid", [5, 1, 9, 4, 0, 7]),
    ("humid", [50, 11, 92, 43, 10, 77]),
    ("piano", [50, 11, 92, 43, 10, 77]),
]


@pytest.mark.parametrize(("name", "values"), KEYS)
def test_a_key_is_left_out_and_names_the_rows(tmp_path, name, values):
    text = f"{name},a\n" + "".join(f"{key},{1.5 * (i % 3)}\n" for i, key in enumerate(values))
    data = read(put(tmp_path, "t.csv", text))
    assert data.names == ("a",)
    assert data.ids.tolist() == values
    assert any("look like keys" in note and repr(name) in note for note in data.notes)
    kept = read(tmp_path / "t.csv", keep=[name])
    assert kept.names == (name, "a")
    assert read(tmp_path / "t.csv", columns=[name, "a"]).names == (name, "a")


@pytest.mark.parametrize(("name", "values"), FEATURES)
def test_a_feature_is_not_taken_for_a_key(tmp_path, name, values):
    text = f"{name},a\n" + "".join(f"{value},{1.5 * (i % 3)}\n" for i, value in enumerate(values))
    assert read(put(tmp_path, "t.csv", text)).names == (name, "a")


def test_a_table_of_keys_keeps_its_features(tmp_path):
    data = read(put(tmp_path, "t.csv", "a\n" + "".join(f"{i}\n" for i in range(20))))
    assert data.names == ("a",)


def test_keys_keep_their_zeros(tmp_path):
    data = read(put(tmp_path, "t.csv", block("sample no,a\n", "00{i:02d},{odd}.5\n")))
    assert data.ids.tolist()[:2] == ["0000", "0001"]


def test_keep_overrules_every_guess(tmp_path):
    path = put(tmp_path, "t.csv", "id,class,a\n5,1,2\n9,0,4\n")
    assert read(path).names == ("a",)
    assert read(path, keep=["id", "class"]).names == ("id", "class", "a")
    assert read(path, columns=["a"], keep=["class"]).names == ("a", "class")
    with pytest.raises(InputError, match="no column 'z'"):
        read(path, keep=["z"])
    with pytest.raises(InputError, match="column 'b' is empty"):
        read(put(tmp_path, "t.csv", "a,b\n1,\n2,\n"), columns=["b"])


# ---------------------------------------------------------------- large and hostile


def test_notes_are_no_ids_and_cost_what_they_hold(tmp_path):
    text = "a,b,note\n" + "".join(f"{i % 3}.5,2,{i}{'x' * 20_000}\n" for i in range(50))
    data = read(put(tmp_path, "t.csv", text))
    assert data.names == ("a", "b")
    assert data.ids.tolist() == list(range(50))
    one_long = "a,name\n" + "".join(f"{i % 3}.5,n{i}\n" for i in range(50)) + "1.5," + "x" * 150 + "\n"
    assert read(put(tmp_path, "u.csv", one_long)).ids.dtype == object


def test_very_many_columns(tmp_path):
    n = 20_000
    rows = [",".join(f"g{j}" for j in range(n)), *(",".join(str((i * j) % 7) for j in range(n)) for i in range(3))]
    data = read(put(tmp_path, "t.csv", "\n".join(rows)))
    assert data.content.shape == (3, n)
    assert data.content[2, 3] == 6


def test_a_row_larger_than_a_block_of_the_parser(tmp_path, monkeypatch):
    from tautcut.formats import text

    monkeypatch.setattr(text, "_BLOCK", 2**16)
    rows = "".join(f"1,{'x' * 100_000}{i},2\n" for i in range(3))
    assert read(put(tmp_path, "t.csv", f"a,b,c\n{rows}")).content.tolist() == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv.gz", b"no gzip at all", "'{path}' cannot be unpacked"),
        ("t.csv.gz", gzip.compress(bytes(range(256)))[:200], "'{path}' cannot be unpacked"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:10] + b"\xff" * 30, "'{path}' cannot be unpacked"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n3\n", mtime=0), "'{path}' is uneven or cut short: line 3 has 1 columns"),
        ("t.csv.zip", b"", "no known format"),
        ("t.csv", "a,b\n1,2\n3,4,5\n", "line 3 has 3 columns in place of 2"),
        ("t.csv", 'a,b\n1,2\n"3,4\n', "cannot be read|cut short"),
        ("t.csv", "a,b\n", "no column of numbers"),
        ("t.csv", "name,colour,city\nx,red,rome\ny,blue,rome\n", "no column of numbers"),
        ("t.csv", "a,b\n1,1e999\n1,2\n", "found inf in line 2, column 'b'"),
        ("t.csv", "a,b\n1,-Infinity\n1,2\n", "found -inf in line 2, column 'b'"),
        ("t.xlsx", b"PK no workbook", "cannot be read as a spreadsheet"),
        ("t.gml", b"graph [ node [", "cannot be read as a .gml graph"),
        ("t.gexf", b"<gexf>", "cannot be read as a .gexf graph"),
        ("t.gexf", b'<!DOCTYPE g [<!ENTITY a "ha">]><gexf>&a;</gexf>', "document type declaration"),
        ("t.edges", "a b 1\nb c nan\n", "found 'nan' in line 2"),
        ("t.edges", "a b nan\nb c nan\n", "found 'nan' in line 1"),
        ("t.edges", "a;b;1,5\nb;c;2.5\nd;c;1,5\n", "found '2.5' in line 2"),
        ("t.edgelist", b"a b {'weight': __import__('os')}", "cannot be read as a .edgelist graph"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_by_name(tmp_path, name, text, words):
    path = put(tmp_path, name, text)
    with pytest.raises(InputError, match=words.replace("{path}", str(path))):
        read(path)


def test_a_small_file_cannot_fill_the_disk(tmp_path, monkeypatch):
    from tautcut.formats import packed

    monkeypatch.setattr(packed, "_HARMLESS", 2**20)
    path = put(tmp_path, "t.csv.gz", gzip.compress(b"0" * 2**23, mtime=0))
    with pytest.raises(InputError, match="unpacks to more than"):
        read(path)


@pytest.mark.parametrize(("name", "module"), [("t.xlsx", "python_calamine"), ("t.gml", "networkx")])
def test_a_package_that_is_not_there_is_named(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs the package {module}.*pip install 'tautcut\[formats\]'"):
        read(put(tmp_path, name, b"graph []"))


# ---------------------------------------------------------------- spreadsheets


def test_a_spreadsheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    import datetime

    book = openpyxl.Workbook()
    for row in (["id", "a", "b", "day"], ["x", 1.25, 2, datetime.date(2020, 1, 2)], ["y", 3, 0.1, None]):
        book.active.append(row)
    book.create_sheet("more")
    book.save(tmp_path / "t.xlsx")
    data = read(tmp_path / "t.xlsx")
    assert data.names == ("a", "b")
    assert data.content.tolist() == [[1.25, 2], [3, 0.1]]
    assert data.ids.tolist() == ["x", "y"]
    assert data.notes[0] == "Taken from its first sheet, 'Sheet'."


# ---------------------------------------------------------------- edges


NODES = " ".join(f'node [ id {i} label "{name}" ]' for i, name in enumerate("abcd"))
EDGES = " ".join(f"edge [ source {i} target {i + 1} value {weight} ]" for i, weight in enumerate((3, 1.5, 2)))
GML = f"graph [ {NODES} {EDGES} ]"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.tsv", "a\tb\t3.0\nb\tc\t1.5\nc\td\t2\n"),
        ("e.csv", "a,b,3.0\nb,c,1.5\nc,d,2\n"),
        ("e.txt", "a b 3.0\nb c 1.5\nc d 2\n"),
        ("e.csv", "a,b\nb,c\nc,d\n"),
        ("e.csv.gz", gzip.compress(b"a,b,3.0\nb,c,1.5\nc,d,2\n", mtime=0)),
        ("e.csv", "no,source,target,weight\n1,a,b,3\n2,b,c,1.5\n3,c,d,2\n"),
        ("e.csv", "weight,target,source\n3,a,b\n1.5,b,c\n2,c,d\n"),
        ("e.tsv", "source\ttarget\tweight\na\tb\t3,0\nb\tc\t1,5\nc\td\t2,0\n"),
        ("e.edges", "a;b;3,0\nb;c;1,5\nc;d;2,0\n"),
        ("e.edgelist", "a b 3.0\nb c 1.5\nc d 2\n"),
        ("e.edgelist", "a b {'weight': 3.0}\nb c {'weight': 1.5}\nc d {'weight': 2}\n"),
        ("e.edgelist", "a b {}\nb c {}\nc d {}\n"),
        ("e.gml", GML),
    ],
)  # fmt: skip
def test_edges_with_names_are_a_graph(tmp_path, name, text):
    data = read(put(tmp_path, name, text))
    assert data.kind == "graph"
    assert data.ids.tolist() == ["a", "b", "c", "d"]
    weights = data.content.to_scipy().toarray()[[0, 1, 2], [1, 2, 3]].tolist()
    has_weights = "3" in (text if isinstance(text, str) else "3") and "{}" not in str(text)
    assert weights == ([3, 1.5, 2] if has_weights else [1, 1, 1])


@pytest.mark.parametrize(
    "text", ["ann\tparis\t3.0\nbob\trome\t1.5\n", "home\taway\tgoals\nx\ty\t3\ny\tx\t3\n", "ann\tparis\nbob\trome\n"]
)
def test_what_could_be_edges_is_asked_about(tmp_path, text):
    path = put(tmp_path, "e.tsv", text)
    with pytest.raises(InputError, match="--as graph"):
        read(path)
    assert read(path, kind="graph").kind == "graph"
    if "goals" in text:
        assert read(path, kind="features").names == ("goals",)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("name,city,age\nann,paris,30\nbob,rome,41\nbea,paris,50\n", ("age",)),
        ("x,y\n1,2\n2,1\n3,3\n", ("x", "y")),
        ("1.5,2,1\n2,1,2\n", ("0", "1", "2")),
        ("h,i,j,k\n1.5,2,1,7\n2,1,2,7\n", ("h", "i", "j", "k")),
        ("source,x,y,target\nweb,1.5,2,1\nshop,1,2,0\n", ("x", "y")),
    ],
)
def test_a_narrow_table_is_still_a_table(tmp_path, text, names):
    assert read(put(tmp_path, "t.csv", text)).names == names


def test_a_list_of_edges_in_many_blocks(tmp_path, monkeypatch):
    from tautcut.formats import text

    monkeypatch.setattr(text, "_BLOCK", 2**10)
    lines = [f"v{i % 50},w{i % 49},{1 + i % 7 * 0}" for i in range(2000)]
    data = read(put(tmp_path, "e.edges", "\n".join(lines)))
    assert data.ids.tolist() == sorted([f"v{i}" for i in range(50)] + [f"w{i}" for i in range(49)])
    expected = {(f"v{i % 50}", f"w{i % 49}") for i in range(2000)}
    upper = data.content.to_scipy().tocoo()
    pairs = {tuple(sorted(data.ids[[i, j]].tolist())) for i, j in zip(upper.row, upper.col, strict=True)}
    assert pairs == expected
    with pytest.raises(InputError, match=r"line 2 of .* names one vertex only"):
        read(put(tmp_path, "e.edges", "a,b\nc,\nd,e\n"))


def test_pairs_of_numbers_are_features_but_it_is_said(tmp_path):
    data = read(put(tmp_path, "t.csv", "1,2\n2,3\n3,4\n"))
    assert data.kind == "features"
    assert "say --as graph" in data.notes[-1]


def test_networks_of_networkx(tmp_path):
    networkx = pytest.importorskip("networkx")
    G = networkx.les_miserables_graph()
    networkx.set_node_attributes(G, {node: node[0] for node in G}, "initial")
    networkx.write_gml(G, tmp_path / "g.gml")
    networkx.write_gexf(G, tmp_path / "g.gexf")
    networkx.write_edgelist(G, tmp_path / "g.edgelist", delimiter="\t")
    networkx.write_weighted_edgelist(networkx.convert_node_labels_to_integers(G), tmp_path / "h.edgelist")
    expected = networkx.to_scipy_sparse_array(G, weight="weight").toarray()
    for name in ("g.gml", "g.gexf"):
        data = read(tmp_path / name, label_column="initial")
        assert data.ids.tolist() == list(G)
        assert data.content.to_scipy().toarray().tolist() == expected.tolist()
        assert data.labels.tolist() == [node[0] for node in G]
        with pytest.raises(InputError, match="no attribute 'colour'"):
            read(tmp_path / name, label_column="colour")
        with pytest.raises(InputError, match="without columns"):
            read(tmp_path / name, columns=["a"])
    data = read(tmp_path / "h.edgelist")
    assert data.ids.tolist() == list(range(77))
    assert data.content.to_scipy().toarray().tolist() == expected.tolist()


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize(
    "cell", ["1", "-1.5", "1,5", "1.234,5", "1,234.5", "1e5", ".5", ",5", "inf", "12 %", "$3", "1 234"]
)
def test_numbers(cell):
    assert is_number(cell)


@pytest.mark.parametrize(
    "cell", ["", "x", "1.2.3", "1,2,3", "12a", "2020-01-01", "10:30", "+", "e5", "1 2", "1;5", "0x1G"]
)
def test_what_is_no_number(cell):
    assert not is_number(cell)


def test_missing_is_not_a_word():
    assert is_missing(" N/A ")
    assert not is_missing("0")
    assert not is_missing("nano")
