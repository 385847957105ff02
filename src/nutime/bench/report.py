"""The benchmark as one page: measured results, beside published ones, and what is missing.

Everything on the page is computed from the files of results and the published tables. Measured and published
results never share a column, nor do ``honest`` and ``paper``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

import numpy as np

from nutime.bench import ablations, published
from nutime.bench.page import Page
from nutime.bench.published import PRINTED_DECIMALS, beside_published, rounded
from nutime.bench.results import (
    SELECTIONS,
    Result,
    Runs,
    collect,
    comparable,
    is_own,
    mean,
    overall,
    own_best,
    per_set,
    read_results,
    seed_means,
    select,
    set_key,
)
from nutime.bench.statistics import Columns, Comparison, Estimate, common_sets, compare, wilcoxon, win_tie_loss
from nutime.data.archives import ARCHIVE
from nutime.figures.cost import Cost, draw_cost
from nutime.figures.critical_difference import draw_critical_difference
from nutime.figures.labelling import SHARE, Simulation, draw_labelling, labels_needed
from nutime.figures.scaling import Measured, draw_scaling
from nutime.figures.scatter import draw_scatter
from nutime.figures.weighting import draw_weighting

TITLES = {
    "probe": "Frozen encoder, linear classifier and trees",
    "finetune": "Fine-tuned models and their ensemble",
    "uea": "UEA archive",
    "fewshot": "Five labelled series per class",
    "tfc": "The sets of TF-C",
    "clustering": "Clustering",
    "anomaly": "Anomaly detection",
    "impute": "Imputation",
    "forecast": "Forecasts",
    "segmentation": "Segmentation of recordings",
    "localisation": "Anomalies within recordings",
    "ablation-encoding": "Ablation: encoding of the values",
    "ablation-scales": "Ablation: number of scales",
    "ablation-window": "Ablation: window size",
    "ablation-dim": "Ablation: width of a scalar's embedding",
    "ablation-weighting": "Ablation: weighting of the scales",
    "ablation-corpus": "Ablation: pretraining data",
}
_HALVES = (
    "The settings of nutime's methods were chosen on the first half of the recordings, by name: the second half "
    "is the number to quote. Published results are on the same recordings."
)
NOTES = {
    "impute": "Standardised values of the last 20 %; blocks of 8, 24 and 48 points are hidden, the same for all.",
    "forecast": "The corpus of the shipped encoders has the pasts of M4 Weekly, and whole series of M4 Hourly, "
    "with these futures; that of the decoder has neither. OWA: sMAPE and MASE relative to Naive2. ETTh1: 96 "
    "points of standardised values, every 48 points.",
    "segmentation": f"Recordings of TSSB (Ermshaus, Schäfer and Leser 2023). {_HALVES}",
    "localisation": (
        "Recordings of TSB-AD-U (Liu and Paparrizos 2024), rebuilt from NAB and NASA's SMAP and MSL. The SMAP and "
        "MSL channels, without labels, are also among the series that an encoder may have been pretrained on. "
        f"{_HALVES}"
    ),
    "probe": "The paper never freezes its encoder: its column here was fine-tuned and is not directly comparable.",
}
#: Beside a file of results: notes by protocol that hold for these results alone.
_OWN_NOTES = "notes.json"
SELECTION_NOTES = (
    "`honest`: nothing was chosen on test data. The default everywhere, and the number to quote.",
    "`paper`: the best epoch on the test set, as reported by the authors' released code for archives without a "
    "validation split. Such numbers are too high; they are here only for comparison with the paper's own.",
    "`published`: printed in the paper. Its NuTime was selected like `paper`; the other columns are from their "
    "own authors.",
)
TEST_SELECTED = "The best epoch was chosen on the test set: compare these numbers with the paper's and no others."
UNKNOWN = "–"
FRACTIONS = ("accuracy", "macro_f1")
SCORE_NAMES = {
    "accuracy": "accuracy, %",
    "macro_f1": "macro-F1, %",
    "silhouette": "silhouette",
    "ari": "ARI",
    "nmi": "NMI",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auroc": "AUROC",
    **{f"mse_{share}": f"MSE, {share} % missing" for share in ("12.5", "25", "37.5", "50")},
    "owa": "OWA",
    "smape": "sMAPE, %",
    "mase": "MASE",
    "mse": "MSE",
    "mae": "MAE",
    "coverage_80": "coverage of 80 % intervals",
    "covering": "Covering",
    "covering_known": "Covering, number of change points known",
    "vus_pr": "VUS-PR",
}
_AGAINST = ("accuracy, %, published", "difference, points", "wins/ties/losses")
_MAX_RIVALS = 3
#: Decimals of the published results on default splits.
_SPLIT_DECIMALS = 4


def write_report(
    paths: Iterable[str | Path], folder: str | Path, labelling: Path | None = None, scaling: Path | None = None
) -> tuple[Path, Path]:
    """Read files of results; write ``report.html``, ``report.md`` and its ``figures``; return the first two paths.

    A ``notes.json`` beside a file of results has notes that hold for these results alone, by protocol.
    ``labelling`` is a file of ``benchmarks/active_labelling.py``, ``scaling`` of ``benchmarks/classify_cpu.py``.
    """
    files = [Path(path) for path in paths]
    notes: dict[str, str] = {}
    for beside in (file.with_name(_OWN_NOTES) for file in files):
        if beside.is_file():
            notes |= json.loads(beside.read_text("utf-8"))
    simulations = json.loads(labelling.read_text("utf-8")) if labelling else {}
    measured = read_scaling(scaling) if scaling else []
    return build_report(read_results(files), simulations, measured, notes).write(folder, "report")


def build_report(
    results: list[Result],
    simulations: Mapping[str, Simulation] | None = None,
    measured: Sequence[Measured] = (),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Page:
    """Return the report.

    Args:
        results: of any protocols.
        simulations: of labelling, by data set.
        measured: times by the size of the data.
        notes: on these results, by protocol; they follow those on the protocol.
    """
    unknown = sorted({result.protocol for result in results} - set(published.PROTOCOLS))
    if unknown:
        raise ValueError(
            f"results of unknown protocol(s) {', '.join(unknown)}; known are {', '.join(published.PROTOCOLS)}"
        )
    page = Page("Benchmark of nutime")
    page.add(_introduction(results))
    page.bullets(SELECTION_NOTES)
    _add_overview(page, results)
    for protocol in published.PROTOCOLS:
        if not any(result.protocol == protocol for result in results):
            continue
        page.add(f"## {TITLES[protocol]}")
        if texts := [source[protocol] for source in (NOTES, notes) if protocol in source]:
            page.add(" ".join(texts))
        for selection in SELECTIONS:
            if select(results, protocol, selection):
                page.add(f"### Protocol {protocol} `{selection}`")
                if selection == "paper":
                    page.add(TEST_SELECTED)
                if protocol in published.PER_SET:
                    _add_per_set(page, results, protocol, selection)
                elif protocol in published.BY_METHOD:
                    _add_by_method(page, results, protocol, selection)
                elif protocol in published.RECORDINGS:
                    _add_recordings(page, select(results, protocol, selection))
                else:
                    _add_ablation(page, results, protocol, selection)
    if simulations:
        _add_labelling(page, simulations)
    if measured:
        page.add("## More series, longer ones, several channels")
        caption = (
            "Fit and predict of random walks of two classes on two cores (benchmarks/classify_cpu.py --scaling). "
            "Where it is not varied: 300 series, 128 points, one channel."
        )
        page.figure(draw_scaling(measured), "scaling", caption)
    _add_runs(page, results)
    _add_missing(page, results)
    return page


def _introduction(results: Sequence[Result]) -> str:
    methods = {result.method for result in results if not result.protocol.startswith("ablation")}
    sets = {set_key(result.dataset) for result in results}
    citation = re.sub(r"https://\S+", r"<\g<0>>", published.citation())
    return (
        f"{len(results):,} results of {len(methods)} methods on {len(sets)} data sets, beside the paper's tables. "
        "Every comparison is over the sets common to its methods, and states their number. "
        f"The paper: {citation}"
    )


def _add_overview(page: Page, results: Sequence[Result]) -> None:
    """Add one table per selection: nutime's best method of each classification protocol, and the paper's."""
    text_columns = ("best of nutime", "on the sets of")
    for selection in SELECTIONS:
        rows = []
        for protocol, tables in published.PER_SET.items():
            columns = seed_means(collect(results, protocol, selection))
            if (best := own_best(columns)) is None:
                continue
            for table in tables:
                theirs = published.column(table)
                if sets := common_sets([columns[best], theirs]):
                    means = (percent(mean(column, sets)) for column in (columns[best], theirs))
                    where = f"{published.info(table).where}, {len(sets)} sets"
                    rows.append((TITLES[protocol], best, where, *means))
        if rows:
            header = ("protocol", *text_columns, f"accuracy, %, {selection}", "accuracy, %, published")
            page.add(f"### At a glance `{selection}`")
            page.table("Mean over these sets, of nutime and of the paper's NuTime", header, rows, text_columns)


# ---- protocols with one row per data set -------------------------------------------------------------------


def _add_per_set(page: Page, results: list[Result], protocol: str, selection: str) -> None:
    """Add summary, statistics, comparison with published results and all sets of a classification protocol."""
    runs, f1_runs = (collect(results, protocol, selection, score) for score in FRACTIONS)
    all_columns = seed_means(runs)
    if not all_columns:
        page.add("No result has an accuracy.")
        return
    columns = {method: all_columns[method] for method in comparable(all_columns)}
    if few := [f"{name} ({len(values)} sets)" for name, values in all_columns.items() if name not in columns]:
        page.add(
            f"Not compared, because they were run on fewer than half the sets: {', '.join(few)}; "
            "their results are in the table of all sets."
        )
    sets = common_sets(columns.values())
    comparison = compare(columns) if len(columns) > 1 and sets else None
    _add_summary(page, runs, f1_runs, columns, comparison, selection)
    name = f"{protocol}-{selection}"
    if comparison and len(comparison.methods) > 2:
        _add_ranks(page, comparison, f"{name}-ranks", f"measured here, {selection}, {len(sets)} sets", columns)
    for table in published.PER_SET[protocol]:
        _add_beside_paper(page, columns, table, selection, name)
    if selection == "honest" and protocol in published.OTHER_METHODS:
        _add_other_methods(page, columns, published.OTHER_METHODS[protocol])
    peers = [method for method in comparison.methods if not is_own(method)] if comparison else []
    _add_scatter(page, columns, peers, published.PER_SET[protocol], name)
    _add_all_sets(page, runs, published.PER_SET[protocol], selection)


def _add_summary(
    page: Page, runs: Runs, f1_runs: Runs, columns: Columns, comparison: Comparison | None, selection: str
) -> None:
    sets, best = common_sets(columns.values()), own_best(columns)
    order = list(comparison.methods if comparison else columns)
    rows = []
    for method in order:
        f1 = f1_runs.get(method, {})
        has_f1 = sets and all(name in f1 for name in sets)
        row = [
            method,
            f"{len(runs[method])}",
            percent(overall(runs[method], sets)) if sets else UNKNOWN,
            percent(overall(f1, sets)) if has_f1 else UNKNOWN,
            f"{comparison.ranks[method]:.2f}" if comparison else UNKNOWN,
        ]
        if best and comparison:
            p_value = comparison.p_values[order.index(best), order.index(method)]
            against = str(win_tie_loss(columns[best], columns[method]))
            row += [UNKNOWN] * 2 if method == best else [against, _p_text(p_value)]
        rows.append([f"**{cell}**" for cell in row] if method == best else row)
    header = ["method", "sets run", f"accuracy, %, {selection}", f"macro-F1, %, {selection}", "average rank"]
    if best and comparison:
        header += [f"{best} wins/ties/losses", "p (Holm)"]
    page.table(f"Measured here, over the {len(sets)} sets common to all methods", header, rows)


def _add_beside_paper(page: Page, columns: Columns, table: str, selection: str, name: str) -> None:
    """Add our methods beside the paper's column, and their ranks among all methods of its table."""
    printed = published.columns(table)
    ours = {
        method: column
        for method, values in columns.items()
        if (column := rounded(values, printed[published.OWN], PRINTED_DECIMALS))
    }
    if not ours:
        return
    info = published.info(table)
    rows = []
    for method, column in ours.items():
        name_there = published.OWN if is_own(method) else method
        if name_there in printed:
            figures = _against(columns[method], column, printed[name_there])
            rows.append((method, name_there, *figures))
    if rows:
        header = ["method", "column of the paper", "sets", f"accuracy, %, {selection}", *_AGAINST]
        caption = f"Beside {info.where} of the paper ({info.what}), on the same sets"
        page.table(caption, header, rows, ("column of the paper",))
    page.add(info.note)
    if best := own_best(ours):
        comparison = compare(beside_published({best: ours[best]}, table, selection))
        title = f"{best}, {selection}, among {info.where} as published, {len(comparison.sets)} sets"
        _add_ranks(page, comparison, f"{name}-{table}-ranks", title, ours)


def _add_other_methods(page: Page, columns: Columns, table: str) -> None:
    """Add our best method beside published results of other methods on the same train/test splits."""
    if (best := own_best(columns)) is None:
        return
    info = published.info(table)
    rows = []
    for method, theirs in published.columns(table).items():
        if ours := rounded(columns[best], theirs, _SPLIT_DECIMALS):
            p_value = wilcoxon(*(np.array([values[name] for name in ours]) for values in (ours, theirs)))
            rows.append((method, *_against(columns[best], ours, theirs), _p_text(p_value)))
    if not rows:
        return
    for method, accuracy in info.means.items():
        rows.append((method, "whole archive", UNKNOWN, percent(accuracy), *[UNKNOWN] * 3))
    header = ["method (published)", "sets", f"accuracy of {best}, %, honest", *_AGAINST, "p (Wilcoxon)"]
    page.table(f"Beside results published elsewhere ({info.where}: {info.what})", header, rows)
    page.add(info.note)


def _against(exact: Mapping[str, float], ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[str]:
    """Return number of sets, both means, their difference, and wins/ties/losses of the rounded scores."""
    sets = common_sets([ours, theirs])
    here, there = mean(exact, sets), mean(theirs, sets)
    difference = f"{100 * (here - there):+.1f}"
    return [str(len(sets)), percent(here), percent(there), difference, str(win_tie_loss(ours, theirs))]


def _add_ranks(page: Page, comparison: Comparison, name: str, title: str, columns: Columns) -> None:
    figure = draw_critical_difference(comparison.ranks, comparison.cliques, title, own_best(columns) or "")
    caption = (
        f"Average ranks, {title}; the best is on the right. A bar covers methods without a significant difference "
        "at 5 % in pairwise Wilcoxon signed-rank tests with Holm's correction."
    )
    page.figure(figure, name, caption)


def _add_scatter(page: Page, columns: Columns, peers: Sequence[str], tables: Sequence[str], name: str) -> None:
    """Draw our best method against the strongest peers measured here, and against the paper's own columns."""
    if (best := own_best(columns)) is None:
        return
    ours = rounded(columns[best], columns[best], PRINTED_DECIMALS)
    printed = {
        f"{published.OWN}, {published.info(table).where}, published": theirs
        for table in tables
        if common_sets([ours, theirs := published.column(table)])
    }
    caption = f"{best} on each set: above the diagonal it is better; the dotted lines are 5 points away."
    if peers:
        figure = draw_scatter(best, columns[best], {method: columns[method] for method in peers[:_MAX_RIVALS]})
        page.figure(figure, f"{name}-scatter", caption)
    if printed:
        page.figure(draw_scatter(best, ours, printed), f"{name}-scatter-published", caption)


def _add_all_sets(page: Page, runs: Runs, tables: Sequence[str], selection: str) -> None:
    values = per_set(runs)
    names = dict.fromkeys(name for by_set in values.values() for name in by_set)
    order = sorted(names, key=lambda name: list(ARCHIVE).index(name) if name in ARCHIVE else len(ARCHIVE))
    printed = {table: published.column(table) for table in tables}
    printed = {table: column for table, column in printed.items() if any(name in column for name in order)}
    rows = []
    for name in order:
        here = [by_set.get(name) for by_set in values.values()]
        highest = max(value.mean for value in here if value)
        cells = [f"**{percent(value)}**" if value and value.mean == highest else percent(value) for value in here]
        rows.append((name, *cells, *(percent(column.get(name)) for column in printed.values())))
    header = (
        "set",
        *(f"{method}, {selection}" for method in values),
        *(f"{published.OWN}, {published.info(table).where}, published" for table in printed),
    )
    caption = f"Accuracy in percent, mean ± deviation over seeds; best of the measured ones in bold ({selection})"
    with page.details(f"All {len(order)} sets, one by one"):
        page.table(caption, header, rows)


# ---- protocols with one row per method, ablations ------------------------------------------------------------


def _add_by_method(page: Page, results: list[Result], protocol: str, selection: str) -> None:
    """Add, for each data set, the scores measured here and those of the paper's table."""
    here = select(results, protocol, selection)
    names = [name for name in SCORE_NAMES if any(name in result.scores for result in here)]
    scores = {name: per_set(collect(here, protocol, selection, name)) for name in names}
    methods = list(dict.fromkeys(result.method for result in here))
    header = ("method", *(SCORE_NAMES[name] for name in names))

    def add_table(caption: str, values: Mapping[str, Mapping[str, Estimate]]) -> None:
        rows = [
            (name, *(score_text(score, found.get(score)) for score in names)) for name, found in values.items()
        ]
        page.table(caption, header, rows)

    for key in dict.fromkeys(key for by_method in scores.values() for sets in by_method.values() for key in sets):
        measured = {
            method: {name: scores[name][method][key] for name in names if key in scores[name].get(method, {})}
            for method in methods
        }
        add_table(f"{key}: measured here, {selection}", {name: found for name, found in measured.items() if found})
        for table in published.BY_METHOD[protocol]:
            if key in published.scores(table):
                info = published.info(table)
                add_table(f"{key}: as published ({info.where}, {info.what})", published.scores(table)[key])
                if info.note:
                    page.add(info.note)


def _add_recordings(page: Page, results: list[Result]) -> None:
    """Add one table per score: methods measured here and published ones, over recordings common to all of ours."""
    methods: dict[str, dict[str, Result]] = {}
    for result in results:
        methods.setdefault(result.method, {})[result.dataset] = result
    sets = common_sets(methods.values())
    if not sets:
        page.add("The methods have no recording in common.")
        return
    about = {name: next(iter(methods.values()))[name].config for name in sets}
    halves = {half: [name for name in sets if about[name].get("half") == half] for half in ("first", "second")}
    for score in [name for name in SCORE_NAMES if any(name in result.scores for result in results)]:
        columns = {
            method: {name: by_set[name].scores[score] for name in sets} for method, by_set in methods.items()
        }
        printed = {name: about[name].get("published", {}).get(score, {}) for name in sets}
        rivals = common_sets(printed.values())  # methods with results on all recordings
        others = {f"{method} (published)": {name: printed[name][method] for name in sets} for method in rivals}
        columns |= dict(sorted(others.items(), key=lambda item: -mean(item[1], sets)))
        rows = [
            (
                method,
                *(_number(mean(column, part), 1, 3) if part else UNKNOWN for part in (sets, *halves.values())),
            )
            for method, column in columns.items()
        ]
        header = ("method", f"all {len(sets)}", *(f"{half} half, {len(part)}" for half, part in halves.items()))
        page.table(f"{SCORE_NAMES[score]}: mean over recordings", header, rows)


def _add_ablation(page: Page, results: list[Result], protocol: str, selection: str) -> None:
    """Add our variants beside the paper's, and a sentence on whether its ordering holds."""
    printed = ablations.as_published(protocol)
    page.add(*ablations.schedules(select(results, protocol, selection)))
    lines: dict[str, dict[str, dict[int, float]]] = {}
    for start, ablation in ablations.measured(results, protocol, selection).items():
        title = ablations.STARTS[start]
        if not ablation.sets:
            page.add(f"{title}: the variants have no data set in common.")
            continue
        theirs = printed.get(start, {})
        _add_variants(page, ablation, theirs, selection, title)
        if protocol == "ablation-weighting":
            lines[title] = ablations.weighting_lines(ablation)
            page.add(ablations.judge_weighting(lines[title]))
        else:
            found = ablation.variants.items()
            ours = {name: scores["accuracy"] for name, scores in found if "accuracy" in scores}
            means = {name: scores["accuracy"].mean for name, scores in theirs.items()}
            page.add(ablations.judge_ordering(ours, means))
    if any(lines.values()):
        figure = draw_weighting({start: line for start, line in lines.items() if line})
        caption = f"Accuracy by number of scales, with and without the weighting ({selection})."
        page.figure(figure, f"{protocol}-{selection}", caption)
    notes = (published.info(table).note for table in published.ABLATIONS[protocol])
    page.add(*(note for note in notes if note))


def _add_variants(
    page: Page, ablation: ablations.Ablation, theirs: published.ScoreTable, selection: str, title: str
) -> None:
    """Add one row per variant, with the paper's values in columns of their own if it has some."""
    tables = [(ablation.variants, selection)] + ([(theirs, "published")] if theirs else [])
    header = ("variant", *(f"{SCORE_NAMES[score]}, {label}" for _, label in tables for score in FRACTIONS))
    rows = [
        (variant, *(percent(table.get(variant, {}).get(score)) for table, _ in tables for score in FRACTIONS))
        for variant in dict.fromkeys([*theirs, *ablation.variants])
    ]
    caption = f"{title}: here over {len(ablation.sets)} sets" + ", published over 128 UCR sets" * bool(theirs)
    page.table(caption, header, rows)


# ---- simulated labelling -------------------------------------------------------------------------------------


def _add_labelling(page: Page, simulations: Mapping[str, Simulation]) -> None:
    """Add how many labels ``suggest`` needs for a share of the accuracy of all labels, beside random choice."""
    ratios = {
        name: labels_needed(one, "suggest") / labels_needed(one, "random") for name, one in simulations.items()
    }
    median = float(np.median(list(ratios.values())))
    fewer = sum(ratio < 1 for ratio in ratios.values())
    more = [f"{name} ({ratio:.2f} times)" for name, ratio in ratios.items() if ratio > 1]
    page.add(
        "## Which series to label",
        f"Labels until a linear model reaches {100 * SHARE:.0f} % of the test accuracy of all labels, over those "
        f"of random choice: {median:.2f} in the median of {len(ratios)} UCR training splits, fewer on {fewer}."
        + f" `suggest` needs more on {', '.join(more)}."
        * bool(more),
    )
    caption = (
        "Simulated labelling: test accuracy against labels per class, mean over sets, and the labels needed on "
        "each of them; below the diagonal suggest needs fewer."
    )
    page.figure(draw_labelling(simulations), "labelling", caption)


def read_scaling(path: Path) -> list[Measured]:
    """Read the curves that ``benchmarks/classify_cpu.py --scaling`` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Measured(
                row["method"],
                row["varied"],
                int(row[row["varied"]]),
                float(row["fit_s"]) + float(row["predict_s"]),
            )
            for row in csv.DictReader(file)
        ]


# ---- how it was run, what is missing -------------------------------------------------------------------------


def _add_runs(page: Page, results: Sequence[Result]) -> None:
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        method = "all variants" if result.protocol in published.ABLATIONS else result.method
        groups.setdefault((result.protocol, method, result.selection), []).append(result)
    rows = []
    for key, members in sorted(groups.items(), key=lambda group: published.PROTOCOLS.index(group[0][0])):
        sets = str(len({result.dataset for result in members}))
        seeds = _seed_text(sorted({result.seed for result in members}))
        devices = ", ".join(dict.fromkeys(result.device for result in members))
        rows.append((*key, sets, seeds, devices, _duration(sum(result.seconds for result in members))))
    header = ("protocol", "method", "selection", "sets", "seeds", "device", "wall time")
    caption = "Wall time of fitting and predicting, over sets and seeds; models of an ensemble have the ensemble's"
    page.add("## How it was run")
    page.table(caption, header, rows, ("method", "selection", "seeds", "device"))
    most, costs = _costs(results)
    if len(costs) > 1:
        caption = (
            f"What accuracy costs: mean over {most} UCR sets, `honest`, each method on the device it was run on."
        )
        page.figure(draw_cost(costs), "cost", caption)
    versions = (", ".join(f"{name} {version}" for name, version in one.versions.items()) for one in results)
    page.bullets([f"Versions: {text}" for text in dict.fromkeys(versions)])


def _costs(results: Sequence[Result]) -> tuple[int, list[Cost]]:
    """Return accuracy and seconds of the methods that ran on the most UCR sets, and how many these are."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.protocol in ("probe", "finetune") and result.selection == "honest" and result.method != "random":
            groups.setdefault((result.protocol, result.method, result.device), []).append(result)
    # Models of an ensemble are left out: they were trained together, and have the seconds of all.
    groups = {key: members for key, members in groups.items() if len({result.seed for result in members}) == 1}
    most, costs = max(map(len, groups.values()), default=0), []
    for (protocol, method, device), members in groups.items():
        if len(members) == most:
            accuracy = fmean(result.scores["accuracy"] for result in members)
            name = f"{method}, fine-tuned" if protocol == "finetune" and is_own(method) else method
            costs.append(Cost(name, accuracy, fmean(result.seconds for result in members), device))
    return most, costs


def _add_missing(page: Page, results: list[Result]) -> None:
    """List the parts of the benchmark without results."""
    items = []
    run = {result.protocol for result in results}
    if absent := [protocol for protocol in published.PROTOCOLS if protocol not in run]:
        items.append(f"Protocols not run: {', '.join(absent)}.")
    for protocol in published.PROTOCOLS:
        for selection in SELECTIONS:
            here = select(results, protocol, selection)
            if here and (text := _gaps(here, protocol, selection)):
                items.append(f"{protocol}, {selection}: {text}.")
    for selection in SELECTIONS:
        without = [name for name in published.PROTOCOLS if name in run and not select(results, name, selection)]
        if without:
            items.append(f"Run, but not with the selection {selection}: {', '.join(without)}.")
    if not items:
        items.append("Nothing: every protocol has results of every method on every set of the paper's tables.")
    page.add("## What is missing")
    page.bullets(items)


def _gaps(results: list[Result], protocol: str, selection: str) -> str:
    """Return which sets (or variants) of the paper have no result, and which methods lack sets of others."""
    if protocol in published.ABLATIONS:
        lacking = []
        measured = ablations.measured(results, protocol, selection)
        for start, theirs in ablations.as_published(protocol).items():
            have = measured[start].variants if start in measured else {}
            lacking += [f"{name} ({ablations.STARTS[start]})" for name in theirs if name not in have]
        return f"no result of {', '.join(lacking)}" if lacking else ""
    expected = _expected_sets(protocol)
    by_method: dict[str, set[str]] = {}
    for result in results:
        by_method.setdefault(result.method, set()).add(set_key(result.dataset))
    any_method = set().union(*by_method.values())
    parts = []
    if lacking := [name for name in expected if name not in any_method]:
        parts.append(f"no result on {len(lacking)} of the paper's {len(expected)} sets ({', '.join(lacking)})")
    parts += [
        f"{method} has no result on {len(any_method - have)} set(s) of other methods"
        for method, have in by_method.items()
        if any_method - have
    ]
    return "; ".join(parts)


def _expected_sets(protocol: str) -> list[str]:
    """Return the sets of the paper's tables for a protocol."""
    if protocol in published.PER_SET:
        tables = [published.column(table) for table in published.PER_SET[protocol]]
        return list(dict.fromkeys(name for column in tables for name in column))
    by_set = [published.scores(table) for table in published.BY_METHOD.get(protocol, ())]
    archives = ("ucr125", "uea29")  # whole archives have protocols of their own
    return [name for table in by_set for name in table if name not in archives]


# ---- text ----------------------------------------------------------------------------------------------------


def percent(value: Estimate | float | None) -> str:
    """Format a fraction in percent, with its deviation if it has one."""
    return _number(value, 100, 1)


def score_text(name: str, value: Estimate | None) -> str:
    """Format a score: accuracies in percent."""
    return percent(value) if name in FRACTIONS else _number(value, 1, 3)


def _number(value: Estimate | float | None, scale: float, decimals: int) -> str:
    if value is None:
        return UNKNOWN
    mean, std = value if isinstance(value, Estimate) else (value, None)
    deviation = "" if std is None else f" ± {scale * std:.{decimals}f}"
    return f"{scale * mean:.{decimals}f}{deviation}"


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _seed_text(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
