"""Tables of texts and of pictures: which column rows are compared by, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from labelling_samples import draw_pictures
from tautcut.cli import app
from tautcut.errors import InputError
from tautcut.formats import known_text, read, read_labels

SENTENCES = ("the cat sleeps on the sofa", "a dog barks at the gate", "the sofa of the cat", "dogs bark at a gate")


def reviews(path: Path, *, n_numbers: int = 1, count: int = 12, words: Any = SENTENCES) -> Path:
    head = ["key", "review", *(f"n{j}" for j in range(n_numbers))]
    rng = np.random.default_rng(0)
    rows = [[f"r{i}", words[i % len(words)], *rng.random(n_numbers).round(3).tolist()] for i in range(count)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[j] for row in rows] for j, name in enumerate(head)}), path)
    else:
        path.write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_are_compared_by_words_where_that_is_asked_or_plain(tmp_path: Path, suffix: str) -> None:
    path = reviews(tmp_path / f"reviews{suffix}")
    for data in (read(path, text_column="review"), read(path, is_open=True)):
        assert data.content.shape[0] == 12
        assert data.texts is not None
        assert data.texts[1] == SENTENCES[1]
        assert data.ids.tolist()[:2] == ["r0", "r1"]
        similarity = (data.content @ data.content.T).toarray()  # type: ignore[union-attr]
        assert np.allclose(similarity.diagonal(), 1)
        assert similarity[0, 2] > similarity[0, 1]
    assert read(path).texts is None  # another command takes numbers, as it always did


def test_many_columns_of_numbers_are_what_a_text_was_embedded_as(tmp_path: Path) -> None:
    data = read(reviews(tmp_path / "reviews.csv", n_numbers=8), is_open=True)
    assert data.texts is None
    assert data.content.shape == (12, 8)


def test_names_are_no_texts(tmp_path: Path) -> None:
    assert read(reviews(tmp_path / "a.csv", words=("red", "green apple")), is_open=True).texts is None


def test_texts_without_words_are_left_out(tmp_path: Path) -> None:
    data = read(reviews(tmp_path / "a.csv", words=(*SENTENCES, "? ! ?")), text_column="review")
    assert data.dropped is not None
    assert data.dropped.tolist() == [4, 9]
    assert "2 texts share no word" in " ".join(data.notes)
    with pytest.raises(InputError, match="share no words"):
        read(reviews(tmp_path / "b.csv", words=("?", "!")), text_column="review")


def test_what_cannot_be_compared_so_is_refused(tmp_path: Path) -> None:
    path = reviews(tmp_path / "a.csv")
    with pytest.raises(InputError, match="has no column 'none'"):
        read(path, text_column="none")
    with pytest.raises(InputError, match="found both"):
        read(path, text_column="review", picture_column="review")
    with pytest.raises(InputError, match="none of the 12 files is a picture"):
        read(path, picture_column="review")
    np.save(tmp_path / "a.npy", np.zeros((5, 2)))
    with pytest.raises(InputError, match="has no column 'x'"):
        read(tmp_path / "a.npy", text_column="x")
    with pytest.raises(InputError, match=r"\.npy or \.npz"):
        read(path, features=tmp_path / "a.csv")
    folder = draw_pictures(tmp_path / "pictures", 3)
    for options in ({"columns": ["a"]}, {"kind": "graph"}, {"label_column": "a"}, {"text_column": "a"}):
        with pytest.raises(InputError):
            read(folder, **options)  # type: ignore[arg-type]


def test_a_folder_and_a_text_are_clustered_like_any_file(tmp_path: Path) -> None:
    folder, out = draw_pictures(tmp_path / "pictures"), tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["cluster", str(folder), "-k", "2", "-n", "4", "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    rows = [line.split(",")[:2] for line in out.read_text().splitlines()[1:]]
    assert len({label for name, label in rows if int(name[1:-4]) % 2}) == 1
    table = reviews(tmp_path / "reviews.csv", count=40)
    done = CliRunner().invoke(
        app, ["cluster", str(table), "--text", "review", "-k", "2", "-n", "4", "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.stderr
    assert '"text": "review"' in done.stdout


def test_what_is_known_comes_back_whatever_it_is_called(tmp_path: Path) -> None:
    ids = np.array(["=1", "'=1", "''=1", " a", "b,c", 'd"e', "f\ng", "+", "ü"], dtype=object)
    labels = ["-x", "'-x", "y", "@z", "=", "'", "t u", "ü", "'+'"]
    path = tmp_path / "known.csv"
    path.write_text(known_text(ids.tolist(), labels))
    assert read_labels(path, ids).tolist() == labels
