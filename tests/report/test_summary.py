"""A fitted model in a notebook: scikit-learn's diagram, then sizes, energy and status; names are never markup."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.cluster import KMeans

from tautcut import MTVClassifier, MTVClustering
from tautcut.report import summary

pytestmark = pytest.mark.usefixtures("light_search")

X = np.random.default_rng(0).normal(size=(60, 3)) + np.repeat(np.eye(3) * 3, [30, 20, 10], axis=0)
HOSTILE = "</td><script>hacked()</script>&amp;"


class Parsed(HTMLParser):
    """The elements and the texts of a fragment; every element has to be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


def found(html: str) -> Parsed:
    """What stands below the diagram."""
    return Parsed(html[html.index('<div class="tautcut-summary"') :])


@pytest.fixture(scope="module")
def model() -> MTVClustering:
    return MTVClustering(3, n_neighbors=15, random_state=0).fit(X)


def test_sizes_energy_and_status_follow_the_diagram(model: MTVClustering) -> None:
    html = model._repr_html_()
    diagram = html[: html.index('<div class="tautcut-summary"')]
    assert "sk-container" in diagram
    assert "n_clusters" in diagram
    texts = found(html).texts
    assert texts[:2] == ["3 clusters of 60 points", f", energy (P) {model.energy_:.6g}. {model.status_}"]
    sizes = np.bincount(model.labels_)
    sure = [model.confidence_[model.labels_ == r].mean() for r in range(3)]
    expected = [text for r in np.argsort(-sizes) for text in (str(r), str(sizes[r]), f"{sure[r]:.2f}")]
    assert texts[2:] == ["cluster", "points", "confidence", *expected]


def test_the_mime_bundle_holds_the_same_and_plain_text_stays_plain(model: MTVClustering) -> None:
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    assert found(bundle["text/html"]).texts == found(model._repr_html_()).texts
    with config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")


def test_a_model_that_is_not_fitted_is_its_diagram() -> None:
    for model in (MTVClustering(3), MTVClassifier()):
        assert "tautcut-summary" not in model._repr_html_()
        assert "sk-container" in model._repr_html_()
    assert hasattr(KMeans(), "_repr_html_")  # scikit-learn's own hook is still there to be called


def test_names_of_classes_are_text() -> None:
    y = np.full(60, None, dtype=object)
    y[[0, 30, 50]] = ["a", HOSTILE, "c"]
    parsed = found(MTVClassifier(n_neighbors=15, random_state=0).fit(X, y)._repr_html_())
    assert HOSTILE in parsed.texts
    assert "script" not in parsed.tags
    assert parsed.texts[0] == "3 classes of 60 points"


def test_of_many_clusters_the_largest_are_shown(model: MTVClustering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "SHOWN", 2)
    parsed = found(model._repr_html_())
    assert parsed.tags.count("tr") == 3
    assert parsed.texts[-1] == "The 2 largest; 1 more."


def test_masses_stand_beside_sizes_once_there_are_any(model: MTVClustering) -> None:
    weights = np.r_[np.full(30, 1.5), np.full(30, 0.5)]
    weighed = MTVClustering(3, n_neighbors=15, random_state=0).fit(X, sample_weight=weights)
    texts = found(weighed._repr_html_()).texts
    assert texts[2:6] == ["cluster", "points", "mass", "confidence"]
    shown = dict(zip(texts[6::4], texts[8::4], strict=True))
    assert shown == {str(r): f"{weights[weighed.labels_ == r].sum():.6g}" for r in range(3)}
    assert "mass" not in found(model._repr_html_()).texts
