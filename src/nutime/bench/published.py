"""The paper's tables, as printed; ``published/sources.json`` says which table each file is.

Shares are in [0, 1] whatever the unit of the table, and data sets have the keys of
:data:`nutime.data.archives.ARCHIVE`. Two names in the tables need help: ``Epilepsy`` is also a set of TF-C, and
a letter is missing in one of the few-shot sets.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from nutime.bench.statistics import Estimate
from nutime.data.archives import find_set

#: Method to score to value.
ScoreTable: TypeAlias = dict[str, dict[str, Estimate]]

#: The column of the paper's own model.
OWN = "NuTime"
_TYPING_ERRORS = {"DistalPhalanxOutlineCorrec": "DistalPhalanxOutlineCorrect"}
_FOLDER = resources.files("nutime.bench") / "published"

#: Tables with a row a data set that a protocol can be held against.
PER_SET: Mapping[str, tuple[str, ...]] = {
    "probe": ("ucr125_selfsupervised",),
    "finetune": ("ucr112_supervised", "ucr125_selfsupervised"),
    "uea": ("uea26_supervised", "uea29_selfsupervised"),
    "fewshot": ("fewshot41",),
}
#: Tables with a row a method and the scores of some data sets.
BY_METHOD: Mapping[str, tuple[str, ...]] = {
    "tfc": ("ssl_univariate", "ssl_multivariate"),
    "clustering": ("clustering_epilepsy",),
    "anomaly": ("anomaly_fdb",),
}
#: Tables with a row a variant. The paper shows its ablation of the weighting as a figure, without numbers.
ABLATIONS: Mapping[str, tuple[str, ...]] = {
    "ablation-encoding": ("ablation_encoding",),
    "ablation-scales": ("ablation_scales",),
    "ablation-window": ("ablation_window",),
    "ablation-dim": ("ablation_dim",),
    "ablation-weighting": (),
    "ablation-corpus": ("ablation_corpus",),
}
#: Every protocol of the benchmark that results are filed under.
PROTOCOLS = (*PER_SET, *BY_METHOD, *ABLATIONS)


@dataclass(frozen=True)
class Source:
    """Where a table comes from.

    Attributes:
        where: the table or section of the paper.
        what: what the table shows.
        note: what a reader of the numbers should know.
        archive: of the data sets in its rows; empty where the rows are something else.
        percent: whether it is printed in percent.
    """

    where: str
    what: str
    note: str = ""
    archive: str = ""
    percent: bool = False


def citation() -> str:
    """Return the paper's authors, title, venue and address."""
    return str(_sources()["paper"])


def source(table: str) -> Source:
    """Return where a table comes from; the error for an unknown one lists all."""
    tables = _sources()["tables"]
    if table not in tables:
        raise ValueError(f"no published table is called {table!r}; known are {', '.join(tables)}")
    return Source(**tables[table])


@cache
def columns(table: str) -> Mapping[str, Mapping[str, float]]:
    """Return a table that has a row a data set: method to accuracy by set, in the printed order."""
    archive = source(table).archive
    if not archive:
        raise ValueError(f"{table} has no row a data set; use scores({table!r})")
    rows = [row for row in _rows(table) if row["Dataset"] != "Average"]
    keys = [find_set(f"{archive}/{_TYPING_ERRORS.get(row['Dataset'], row['Dataset'])}").key for row in rows]
    methods = [name for name in rows[0] if name != "Dataset"]
    return {method: {key: float(row[method]) for key, row in zip(keys, rows, strict=True)} for method in methods}


def column(table: str, method: str = OWN) -> dict[str, float]:
    """Return the accuracy of one method by data set, as published."""
    found = columns(table)
    if method not in found:
        raise ValueError(f"{table} has no column {method!r}; it has {', '.join(found)}")
    return dict(found[method])


@cache
def scores(table: str) -> Mapping[str, ScoreTable]:
    """Return a table that has a row a method: data set (or how training began) to method to score."""
    scale = 100.0 if source(table).percent else 1.0
    found: dict[str, ScoreTable] = {}
    for row in _rows(table):
        label, *cells = row.items()
        for heading, text in cells:
            where, score = heading.rsplit(" ", 1)
            if text:
                value = _estimate(text, 1.0 if score == "rank" else scale)
                found.setdefault(where, {}).setdefault(label[1], {})[score] = value
    return found


def _estimate(text: str, scale: float) -> Estimate:
    mean, _, std = text.partition("±")
    return Estimate(float(mean) / scale, float(std) / scale if std else None)


def _rows(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((_FOLDER / f"{table}.csv").read_text("utf-8").splitlines()))


@cache
def _sources() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / "sources.json").read_text("utf-8"))
    return document
