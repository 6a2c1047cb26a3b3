"""Documents as word counts, and word counts as tf-idf rows, by the recipe of the INCRES paper: stop words and rare
words out, empty documents out, tf-idf. This module owns that recipe and the public copy of 20 Newsgroups. It
chooses no word by the labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from tautcut.arrays import BoolArray, SparseMatrix
from tautcut.datasets.files import Arrays

COUNT_ARRAYS = ("data", "indices", "indptr", "shape", "is_stopword", "y", "class_names")
# Words with fewer occurrences in the corpus are not stored, here as in the published file of 20 Newsgroups.
FEWEST_STORED = 5


def tfidf_rows(stored: Arrays, *, fewest: int) -> tuple[SparseMatrix, BoolArray]:
    """The tf-idf rows of unit length of the documents that are not empty, and which documents those are.

    `stored` holds counts in CSR parts and `is_stopword`. Stop words are left out, and words that occur less often than
    `fewest` in all documents together.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    parts = (stored["data"].astype(np.float64), stored["indices"], stored["indptr"])
    counts = sp.csr_matrix(parts, shape=tuple(stored["shape"]))
    occurrences = np.asarray(counts.sum(axis=0)).ravel()
    counts = counts[:, (occurrences >= fewest) & ~stored["is_stopword"]]
    is_kept = np.diff(counts.indptr) > 0
    rows = sp.csr_matrix(TfidfTransformer().fit_transform(counts[is_kept]))
    rows.sort_indices()
    return rows, is_kept


def fetch_newsgroups() -> Arrays:
    """Word counts of the public copy of 20 Newsgroups, without the headers, which name the group."""
    from sklearn.datasets import fetch_20newsgroups

    messages = fetch_20newsgroups(subset="all", shuffle=False, remove=("headers",))
    return {
        **_count_words(messages.data),
        "y": np.asarray(messages.target, dtype=np.int64),
        "class_names": np.array(messages.target_names, dtype=np.str_),
    }


def _count_words(documents: Sequence[str]) -> Arrays:
    """Counts of the maximal runs of a–z in each document, lower-cased; English stop words are flagged, not removed."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    vectorizer = CountVectorizer(token_pattern="[a-z]+")
    counts = sp.csr_matrix(vectorizer.fit_transform(documents))
    is_stored = np.asarray(counts.sum(axis=0)).ravel() >= FEWEST_STORED
    counts = counts[:, is_stored]
    words = vectorizer.get_feature_names_out()[is_stored]
    return {
        "data": counts.data,
        "indices": counts.indices,
        "indptr": counts.indptr,
        "shape": np.array(counts.shape),
        "is_stopword": np.array([word in ENGLISH_STOP_WORDS for word in words], dtype=bool),
    }
