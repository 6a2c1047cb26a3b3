"""The paper's Figures 1 and 2: total variation makes sharp functions, the other relaxations smooth ones."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from matplotlib.image import imread

from tautcut import knn_graph
from tautcut.errors import InputError
from tautcut.paper.figures import Figure1, Figure2, SortedFunction, figure1, figure2
from tautcut.paper.pictures import draw_figure1, draw_figure2


@pytest.fixture(scope="module")
def line() -> Figure1:
    return figure1()


@pytest.fixture(scope="module")
def digits() -> Figure2:
    """The fours, sevens and nines among scikit-learn's digits."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, [4, 7, 9])
    return figure2(knn_graph(X[kept], 10), y[kept], data="digits", n_starts=2)


def plain_figure2() -> Figure2:
    """A figure of four vertices, to draw and nothing else."""
    one = SortedFunction("MTV", (0.9, 0.8, 0.1, 0.0), (1.0, 0.9, 0.1, 0.0), (True, True, False, False), 0.5, 1.0)
    return Figure2("", (4, 9), one, replace(one, method="LSD"))


def test_total_variation_jumps_once_and_is_flat_elsewhere(line):
    drops = -np.diff(line.tv.rescaled)
    assert drops[9] >= 0.9
    assert np.delete(drops, 9) == pytest.approx(np.zeros(18), abs=1e-4)
    assert line.tv.largest_drop == pytest.approx(1, abs=1e-4)


def test_the_spectral_function_slopes_all_along(line):
    shape = np.r_[1:10, 10:0:-1] / 100
    assert -np.diff(line.spectral.rescaled) == pytest.approx(shape, abs=1e-4)
    assert line.spectral.largest_drop == pytest.approx(0.1, abs=1e-4)


def test_each_function_is_the_better_one_in_its_own_model(line):
    assert line.tv.tv_energy == pytest.approx(0.1, abs=1e-6)
    assert line.tv.spectral_energy == pytest.approx(0.1, abs=1e-6)
    assert line.spectral.tv_energy == pytest.approx(1 / 6.7, abs=1e-4)
    assert line.spectral.spectral_energy == pytest.approx(1 / np.sqrt(670), abs=1e-6)


def test_rescaling_changes_the_amplitude_alone(line):
    for one in (line.tv, line.spectral):
        values, rescaled = np.array(one.values), np.array(one.rescaled)
        assert 0 < values.min() < values.max() < 1
        assert (rescaled.min(), rescaled.max()) == (0, 1)
        assert values.min() + rescaled * np.ptp(values) == pytest.approx(values, abs=1e-5)


def test_mtv_has_hardly_a_value_in_between_where_lsd_has_many(digits):
    assert digits.mtv.in_between < 0.01
    assert digits.lsd.in_between > 0.2
    assert min(digits.mtv.purity, digits.lsd.purity) > 0.9  # both know the digits: the functions differ, not the skill


def test_values_are_sorted_and_belong_to_the_digits_shown(digits):
    for one in (digits.mtv, digits.lsd):
        assert len(one.values) == len(one.is_first) == 361
        assert sum(one.is_first) == 181
        assert (np.diff(one.values) <= 0).all()
        first, last = np.array(one.is_first[:90]), np.array(one.is_first[-90:])
        assert first.mean() > 0.8, "the cluster shown is not that of the fours"
        assert last.mean() < 0.2
        inside = [0.1 < value < 0.9 for value in one.rescaled]
        assert np.mean(inside) == pytest.approx(one.in_between, abs=0.005)


def test_the_other_digit_has_its_own_function():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(centre, 1, (30, 2)) for centre in (0, 6, 12)])
    truth = np.repeat([3, 5, 8], 30)
    graph = knn_graph(X, 8)
    for pair in ((5, 8), (8, 5)):
        figure = figure2(graph, truth, digits=pair, n_starts=1)
        assert figure.digits == pair
        for one in (figure.mtv, figure.lsd):
            assert all(one.is_first[:25])
            assert not any(one.is_first[-25:])


def test_figures_are_the_same_every_time(line):
    assert figure1() == line


@pytest.mark.parametrize(
    ("truth", "pair", "message"),
    [
        ([0, 1, 1], (0, 1), r"truth must be 4 classes, one per vertex; found shape \(3,\)"),
        ([0, 0, 1, 1], (0, 7), r"digits must be classes of the truth, \[0, 1\]; found 7"),
    ],
)
def test_a_truth_that_does_not_fit_is_refused(truth, pair, message):
    with pytest.raises(InputError, match=message):
        figure2(knn_graph(np.arange(4.0)[:, None], 1), truth, digits=pair)


def test_no_start_is_refused():
    with pytest.raises(InputError, match="n_starts must be a whole number ≥ 1; found 0"):
        figure2(knn_graph(np.arange(4.0)[:, None], 1), [4, 4, 9, 9], n_starts=0)


@pytest.mark.parametrize("number", [1, 2])
def test_picture_and_numbers_are_written_side_by_side(line, tmp_path, number):
    data, draw = (line, draw_figure1) if number == 1 else (plain_figure2(), draw_figure2)
    png, svg, numbers = draw(data, tmp_path / f"figure{number}")
    assert sorted(tmp_path.iterdir()) == sorted([png, svg, numbers])
    assert [path.name for path in (png, svg, numbers)] == [f"figure{number}.{end}" for end in ("png", "svg", "json")]
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert imread(png)[..., :3].std() > 0.05, "the picture is blank"
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert svg.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    assert json.loads(numbers.read_text(encoding="utf-8")).keys() == asdict(data).keys()


def test_the_numbers_file_holds_the_curves(line, tmp_path):
    content = json.loads(draw_figure1(line, tmp_path / "figure1")[2].read_text(encoding="utf-8"))
    assert content["tv"]["rescaled"] == list(line.tv.rescaled)
    assert content["spectral"]["spectral_energy"] == line.spectral.spectral_energy
    assert len(content["positions"]) == 20
    assert content["edges"] == [[i, i + 1] for i in range(19)]


def test_the_same_numbers_give_the_same_picture(line, tmp_path):
    first = [path.read_bytes() for path in draw_figure1(line, tmp_path / "figure")]
    assert [path.read_bytes() for path in draw_figure1(line, tmp_path / "figure")] == first


def test_what_the_pictures_say(line, tmp_path):
    _, svg, _ = draw_figure1(line, tmp_path / "figure1")
    text = svg.read_text(encoding="utf-8")
    for words in ("(P-rlx)", "(P-rlx2)", "largest drop: 1.00", "largest drop: 0.10", "spectral: 0.0386", "best cut"):
        assert words in text
    _, svg, _ = draw_figure2(replace(plain_figure2(), data="OPTDIGITS"), tmp_path / "figure2")
    text = svg.read_text(encoding="utf-8")
    for words in ("over the 4s and 9s of OPTDIGITS", "MTV", "LSD", "in between: 50.0%"):
        assert words in text


def test_a_folder_that_is_not_there_is_refused(line, tmp_path):
    with pytest.raises(InputError, match=r"no folder '.*missing'"):
        draw_figure1(line, tmp_path / "missing" / "figure1")
