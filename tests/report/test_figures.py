"""A picture is written whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from tautcut.errors import InputError
from tautcut.report import draw_clusters
from tautcut.report.figures import _rows


@pytest.fixture
def clusters():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [9, 4, 1])
    certainty = 0.5 + 0.1 * rng.random(14)
    return {"images": rng.random((14, 5, 4)), "labels": labels, "certainty": certainty, "energy": 0.5}


def test_the_picture_is_written_and_nothing_else(clusters, tmp_path):
    path = draw_clusters(tmp_path / "clusters.png", **clusters, truth=np.arange(14) % 2)
    assert list(tmp_path.iterdir()) == [path]
    picture = imread(path)
    assert picture.shape[0] > 200
    assert picture[..., :3].std() > 0.05, "the picture is blank"


def test_the_title_has_the_energy_and_each_row_its_size(clusters, tmp_path):
    path = draw_clusters(tmp_path / "clusters.svg", **clusters)
    text = path.read_text(encoding="utf-8")
    for words in ("3 clusters of 14 images", "energy (P) 0.5000", "9 images", "4 images", "1 images"):
        assert words in text
    assert "majority" not in text


def test_the_old_picture_is_replaced(clusters, tmp_path):
    path = tmp_path / "clusters.png"
    path.write_bytes(b"old")
    draw_clusters(path, **clusters)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_picture_and_no_fragment(clusters, tmp_path, monkeypatch, error):
    def torn(self, target, **settings):
        target.write_bytes(b"half a pict")
        raise error

    monkeypatch.setattr(Figure, "savefig", torn)
    path = tmp_path / "clusters.png"
    path.write_bytes(b"old")
    with pytest.raises(type(error)):
        draw_clusters(path, **clusters)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/clusters.png", "no folder '.*missing'"),
        ("file/clusters.png", "no folder '.*file'"),
        ("folder.png", "is a folder"),
        ("clusters.txt", r"clusters\.txt' cannot be written: its name must end in \.png, \.pdf, \.svg"),
        ("clusters", "must end in"),
    ],
)
def test_a_path_that_cannot_hold_a_picture_is_refused(clusters, tmp_path, name, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message):
        draw_clusters(tmp_path / name, **clusters)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_read_only_directory_is_refused(clusters, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(InputError, match="read-only"):
        draw_clusters(tmp_path / "clusters.png", **clusters)


def test_rows_rank_by_certainty_and_show_no_image_twice():
    labels = np.array([0, 0, 0, 0, 1, 1])
    certainty = np.array([0.5, 0.9, 0.6, 0.8, 0.7, 0.4])
    first, second = _rows(labels, certainty, None, n_most=2, n_least=3)
    assert first.most_certain.tolist() == [1, 3]
    assert first.least_certain.tolist() == [0, 2]
    assert second.most_certain.tolist() == [4, 5]
    assert second.least_certain.tolist() == []


def test_rows_follow_the_majority_classes():
    labels = np.array([0, 0, 0, 1, 1])
    truth = np.array(["b", "b", "a", "a", "a"])
    rows = _rows(labels, np.ones(5), truth, n_most=1, n_least=1)
    assert [(row.majority, row.size) for row in rows] == [("a", 2), ("b", 3)]
    assert rows[1].share == pytest.approx(2 / 3)
