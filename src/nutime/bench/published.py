"""Published results; ``published/sources.json`` names the source of each table.

Scores are fractions whatever the unit of the table, and data sets have the keys of
:data:`nutime.data.archives.ARCHIVE`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from nutime.bench.statistics import Columns, Estimate
from nutime.data.archives import find_set

#: Method to score to value.
ScoreTable: TypeAlias = dict[str, dict[str, Estimate]]

#: The column of the paper's own model.
OWN = "NuTime"
#: Decimals of the paper's tables.
PRINTED_DECIMALS = 3
_MISPRINTS = {"DistalPhalanxOutlineCorrec": "DistalPhalanxOutlineCorrect"}
_FOLDER = resources.files("nutime.bench") / "published"

#: Tables of the paper with one row per data set, by protocol.
PER_SET: Mapping[str, tuple[str, ...]] = {
    "probe": ("ucr125_selfsupervised",),
    "finetune": ("ucr112_supervised", "ucr125_selfsupervised"),
    "uea": ("uea26_supervised", "uea29_selfsupervised"),
    "fewshot": ("fewshot41",),
}
#: Tables of the paper, if there are any, with one row per method and the scores of some data sets.
BY_METHOD: Mapping[str, tuple[str, ...]] = {
    "tfc": ("ssl_univariate", "ssl_multivariate"),
    "clustering": ("clustering_epilepsy",),
    "anomaly": ("anomaly_fdb",),
    "impute": (),
    "forecast": (),
}
#: Tables of the paper with one row per variant. It shows the ablation of the weighting as a figure only.
ABLATIONS: Mapping[str, tuple[str, ...]] = {
    "ablation-encoding": ("ablation_encoding",),
    "ablation-scales": ("ablation_scales",),
    "ablation-window": ("ablation_window",),
    "ablation-dim": ("ablation_dim",),
    "ablation-weighting": (),
    "ablation-corpus": ("ablation_corpus",),
}
#: Results of other methods on the default train/test splits, with one row per data set.
OTHER_METHODS: Mapping[str, str] = {
    "probe": "ucr_default_split",
    "finetune": "ucr_default_split",
    "uea": "uea_default_split",
}
#: Protocols on recordings. Their published results are in the data folder and come with the results.
RECORDINGS = ("segmentation", "localisation")
#: Every protocol of the benchmark.
PROTOCOLS = (*PER_SET, *BY_METHOD, *RECORDINGS, *ABLATIONS)


@dataclass(frozen=True)
class TableInfo:
    """Where a table comes from.

    Attributes:
        where: the table or section of the paper, or the repository.
        what: what the table shows.
        note: what a reader of the numbers should know.
        archive: of the data sets in its rows; empty if the rows are something else.
        percent: whether it is printed in percent.
        means: mean accuracy over the whole archive of methods without published results per set.
    """

    where: str
    what: str
    note: str = ""
    archive: str = ""
    percent: bool = False
    means: dict[str, float] = field(default_factory=dict)


def citation() -> str:
    """Return the paper's authors, title, venue and address."""
    return str(_sources()["paper"])


def info(table: str) -> TableInfo:
    """Return where a table comes from."""
    return TableInfo(**_sources()["tables"][table])


@cache
def columns(table: str) -> Columns:
    """Return a table with one row per data set: method to accuracy by set, in the printed order."""
    archive = info(table).archive
    rows = [row for row in _rows(table) if row["Dataset"] != "Average"]
    keys = [find_set(f"{archive}/{_MISPRINTS.get(row['Dataset'], row['Dataset'])}").key for row in rows]
    return {
        method: {key: float(row[method]) for key, row in zip(keys, rows, strict=True) if row[method]}
        for method in rows[0]
        if method != "Dataset"
    }


def column(table: str) -> dict[str, float]:
    """Return the published accuracy of the paper's own model by data set."""
    return dict(columns(table)[OWN])


@cache
def scores(table: str) -> Mapping[str, ScoreTable]:
    """Return a table with one row per method: data set (or start of training) to method to score."""
    scale = 100.0 if info(table).percent else 1.0
    found: dict[str, ScoreTable] = {}
    for row in _rows(table):
        label, *cells = row.items()
        for heading, text in cells:
            where, score = heading.rsplit(" ", 1)
            if text:
                value = _estimate(text, 1.0 if score == "rank" else scale)
                found.setdefault(where, {}).setdefault(label[1], {})[score] = value
    return found


def rounded(column: Mapping[str, float], sets: Mapping[str, object], decimals: int) -> dict[str, float]:
    """Return the scores of some sets, rounded like printed ones so that equal results are ties."""
    return {name: round(value, decimals) for name, value in column.items() if name in sets}


def beside_published(own_columns: Columns, table: str, selection: str) -> dict[str, dict[str, float]]:
    """Return columns together with those of a table of the paper, on the sets of that table.

    The paper's own column was selected on test data: it is included only among ``paper`` results.
    """
    printed = columns(table)
    joined = {method: rounded(values, printed[OWN], PRINTED_DECIMALS) for method, values in own_columns.items()}
    for method, values in printed.items():
        if method != OWN or selection == "paper":
            joined[f"{method} (published)"] = dict(values)
    return joined


def _estimate(text: str, scale: float) -> Estimate:
    mean, _, std = text.partition("±")
    return Estimate(float(mean) / scale, float(std) / scale if std else None)


def _rows(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((_FOLDER / f"{table}.csv").read_text("utf-8").splitlines()))


@cache
def _sources() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / "sources.json").read_text("utf-8"))
    return document
