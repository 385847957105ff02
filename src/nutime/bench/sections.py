"""The sections of the report, one a kind of protocol, each for one selection.

What was measured here and what the paper printed never share a column, nor do ``honest`` and ``paper``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nutime.bench import ablations, published
from nutime.bench.document import Block, Folded, Paragraph, Picture, Strong, Table
from nutime.bench.gather import (
    PRINTED_DECIMALS,
    Runs,
    beside_published,
    collect,
    comparable,
    filed,
    is_own,
    mean,
    overall,
    own_best,
    per_set,
    seed_means,
)
from nutime.bench.results import Result
from nutime.bench.statistics import Comparison, Estimate, common_sets, compare, win_tie_loss
from nutime.data.archives import ARCHIVE
from nutime.figures import critical_difference, scatter, style, weighting

UNKNOWN = "–"
SHARES = ("accuracy", "macro_f1")
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
}
_RIVALS = 3


def percent(value: Estimate | float | None) -> str:
    """Write a share in percent, with its deviation if it has one."""
    return _number(value, 100, 1)


def score_text(name: str, value: Estimate | None) -> str:
    """Write a score the way it is usually read: shares in percent, indices as they are."""
    return percent(value) if name in SHARES else _number(value, 1, 3)


def per_set_section(results: Sequence[Result], protocol: str, selection: str) -> list[Block]:
    """Return summary, statistics, comparison with the paper and all sets of a classification protocol."""
    runs, f1_runs = (collect(results, protocol, selection, score) for score in SHARES)
    all_columns = seed_means(runs)
    if not all_columns:
        return [Paragraph("No result has an accuracy.")]
    kept = comparable(all_columns)
    columns = {method: all_columns[method] for method in kept}
    sets = common_sets(columns.values())
    blocks: list[Block] = [_aside(all_columns, kept)] if len(kept) < len(all_columns) else []
    comparison = compare(columns) if len(columns) > 1 and sets else None
    blocks.append(_summary(runs, f1_runs, kept, sets, comparison, selection))
    name = f"{protocol}-{selection}"
    if comparison and len(comparison.methods) > 2:
        title = f"measured here, {selection}, {len(sets)} sets"
        blocks.append(_ranks_picture(comparison, f"{name}-ranks", title, own_best(columns)))
    for table in published.PER_SET[protocol]:
        blocks += _beside_the_paper(columns, table, selection, name)
    blocks += _scatter_pictures(columns, published.PER_SET[protocol], comparison, name)
    blocks.append(_all_sets(runs, published.PER_SET[protocol], selection))
    return blocks


def by_method_section(results: Sequence[Result], protocol: str, selection: str) -> list[Block]:
    """Return, for each data set, the scores measured here and those of the paper's table."""
    here = filed(results, protocol, selection)
    names = [name for name in SCORE_NAMES if any(name in result.scores for result in here)]
    scores = {name: per_set(collect(here, protocol, selection, name)) for name in names}
    methods = list(dict.fromkeys(result.method for result in here))
    printed = {table: published.scores(table) for table in published.BY_METHOD[protocol]}
    blocks: list[Block] = []
    for key in dict.fromkeys(key for by_method in scores.values() for sets in by_method.values() for key in sets):
        measured = {
            method: {name: scores[name][method][key] for name in names if key in scores[name].get(method, {})}
            for method in methods
        }
        measured = {method: found for method, found in measured.items() if found}
        blocks.append(_score_table(f"{key}: measured here, {selection}", measured, names))
        for table, by_set in printed.items():
            if key in by_set:
                caption = f"{key}: as published ({published.source(table).where}, {published.source(table).what})"
                blocks.append(_score_table(caption, by_set[key], names))
                blocks += [Paragraph(note) for note in [published.source(table).note] if note]
    return blocks


def ablation_section(results: list[Result], protocol: str, selection: str) -> list[Block]:
    """Return our variants beside the paper's, and a sentence on whether its ordering holds."""
    printed = ablations.as_published(protocol)
    blocks: list[Block] = [Paragraph(text) for text in ablations.schedules(filed(results, protocol, selection))]
    lines: dict[str, dict[str, dict[int, float]]] = {}
    for start, (variants, sets) in ablations.measured(results, protocol, selection).items():
        if not sets:
            blocks.append(Paragraph(f"{ablations.STARTS[start]}: the variants have no data set in common."))
            continue
        theirs = printed.get(start, {})
        blocks.append(
            _variants_table(variants, theirs, selection, f"{ablations.STARTS[start]}: here over {len(sets)} sets")
        )
        ours = {name: scores["accuracy"] for name, scores in variants.items() if "accuracy" in scores}
        if protocol == "ablation-weighting":
            found = ablations.weighting_lines(ablations.Ablation(variants, sets))
            lines[ablations.STARTS[start]] = found
            blocks.append(Paragraph(ablations.judge_weighting(found)))
        else:
            means = {name: scores["accuracy"].mean for name, scores in theirs.items()}
            blocks.append(Paragraph(ablations.judge_ordering(ours, means)))
    if any(lines.values()):
        picture = style.svg(weighting.draw_weighting({start: line for start, line in lines.items() if line}))
        caption = f"Accuracy by number of scales, with and without the weighting ({selection})."
        blocks.append(Picture(picture, f"{protocol}-{selection}", caption))
    notes = [published.source(table).note for table in published.ABLATIONS[protocol]]
    return [*blocks, *(Paragraph(note) for note in notes if note)]


def _variants_table(
    ours: published.ScoreTable, theirs: published.ScoreTable, selection: str, caption: str
) -> Table:
    """Return a row a variant, with the paper's values in columns of their own where it has some."""
    sources = [(ours, selection)] + ([(theirs, "published")] if theirs else [])
    header = ("variant", *(f"{SCORE_NAMES[score]}, {label}" for _, label in sources for score in SHARES))
    rows = tuple(
        (variant, *(percent(source.get(variant, {}).get(score)) for source, _ in sources for score in SHARES))
        for variant in dict.fromkeys([*theirs, *ours])
    )
    return Table(f"{caption}, published over 128 UCR sets" if theirs else caption, header, rows)


def _summary(
    runs: Runs,
    f1_runs: Runs,
    methods: Sequence[str],
    sets: Sequence[str],
    comparison: Comparison | None,
    selection: str,
) -> Table:
    columns = seed_means({method: runs[method] for method in methods})
    best = own_best(columns)
    order = comparison.methods if comparison else tuple(methods)
    ranks = dict(zip(comparison.methods, comparison.ranks, strict=True)) if comparison else {}
    rows = []
    for method in order:
        f1 = f1_runs.get(method, {})
        has_f1 = sets and all(name in f1 for name in sets)
        row = [
            method,
            f"{len(runs[method])}",
            percent(overall(runs[method], sets)) if sets else UNKNOWN,
            percent(overall(f1, sets)) if has_f1 else UNKNOWN,
            f"{ranks[method]:.2f}" if method in ranks else UNKNOWN,
        ]
        if best and comparison:
            pair = comparison.methods.index(best), comparison.methods.index(method)
            p_value = comparison.p_values[pair]
            against = str(win_tie_loss(columns[best], columns[method]))
            row += [UNKNOWN] * 2 if method == best else [against, _p_text(p_value)]
        rows.append(tuple(map(Strong, row)) if method == best else tuple(row))
    header = ["method", "sets run", f"accuracy, %, {selection}", f"macro-F1, %, {selection}", "average rank"]
    if best and comparison:
        header += [f"{best} wins/ties/losses", "p (Holm)"]
    return Table(f"Measured here, over the {len(sets)} sets that all methods have", tuple(header), tuple(rows))


def _aside(columns: Mapping[str, Mapping[str, float]], kept: Iterable[str]) -> Paragraph:
    left_out = [f"{method} ({len(column)} sets)" for method, column in columns.items() if method not in kept]
    return Paragraph(
        f"Not compared, for they were run on fewer than half the sets: {', '.join(left_out)}; "
        "their results are in the table of all sets."
    )


def _beside_the_paper(
    columns: Mapping[str, Mapping[str, float]], table: str, selection: str, name: str
) -> list[Block]:
    """Return our methods beside the paper's column, and then among all methods of its table."""
    printed = published.columns(table)
    ours = {
        method: {
            key: round(value, PRINTED_DECIMALS) for key, value in column.items() if key in printed[published.OWN]
        }
        for method, column in columns.items()
    }
    ours = {method: column for method, column in ours.items() if column}
    if not ours:
        return []
    source = published.source(table)
    rows = []
    for method, column in ours.items():
        name_there = published.OWN if is_own(method) else method
        if name_there not in printed:
            continue
        theirs = printed[name_there]
        sets = common_sets([column, theirs])
        here, there = mean(columns[method], sets), mean(theirs, sets)
        difference = f"{100 * (here - there):+.1f}"
        outcome = str(win_tie_loss(column, theirs))
        rows.append((method, name_there, str(len(sets)), percent(here), percent(there), difference, outcome))
    header = ("method", "column of the paper", "sets", f"accuracy, %, {selection}", "accuracy, %, published")
    caption = f"Beside {source.where} of the paper ({source.what}), on the same sets"
    blocks: list[Block] = []
    if rows:
        full_header = (*header, "difference, points", "wins/ties/losses")
        blocks.append(Table(caption, full_header, tuple(rows), ("column of the paper",)))
    blocks.append(Paragraph(source.note))
    best = own_best(ours)
    if best is None:
        return blocks
    comparison = compare(beside_published({best: ours[best]}, table, selection))
    title = f"{best}, {selection}, among {source.where} as published, {len(comparison.sets)} sets"
    blocks.append(_ranks_picture(comparison, f"{name}-{table}-ranks", title, best))
    return blocks


def _ranks_picture(comparison: Comparison, name: str, title: str, ours: str | None) -> Picture:
    ranks = dict(zip(comparison.methods, map(float, comparison.ranks), strict=True))
    figure = critical_difference.draw_critical_difference(ranks, comparison.cliques, title, ours or "")
    caption = (
        f"Average ranks, {title}; the best is on the right. A bar covers methods that pairwise Wilcoxon "
        "signed-rank tests with Holm's correction do not tell apart at 5 %."
    )
    return Picture(style.svg(figure), name, caption)


def _scatter_pictures(
    columns: Mapping[str, Mapping[str, float]], tables: Sequence[str], comparison: Comparison | None, name: str
) -> list[Block]:
    """Draw our best method against the strongest peers measured here, and against the paper's own columns."""
    best = own_best(columns)
    if best is None:
        return []
    peers = [method for method in comparison.methods if not is_own(method)] if comparison else []
    measured = {method: columns[method] for method in peers[:_RIVALS]}
    rounded = {key: round(value, PRINTED_DECIMALS) for key, value in columns[best].items()}
    printed = {}
    for table in tables:
        theirs = published.column(table)
        if common_sets([rounded, theirs]):
            printed[f"{published.OWN}, {published.source(table).where}, published"] = theirs
    caption = f"{best} set by set: above the diagonal it is better; the dotted lines are 5 points away."
    drawings = (("scatter", columns[best], measured), ("scatter-published", rounded, printed))
    return [
        Picture(style.svg(scatter.draw_scatter(best, ours, rivals)), f"{name}-{kind}", caption)
        for kind, ours, rivals in drawings
        if rivals
    ]


def _all_sets(runs: Runs, tables: Sequence[str], selection: str) -> Folded:
    values = per_set(runs)
    names = dict.fromkeys(name for by_set in values.values() for name in by_set)
    order = sorted(names, key=lambda name: list(ARCHIVE).index(name) if name in ARCHIVE else len(ARCHIVE))
    printed = {table: published.column(table) for table in tables}
    printed = {table: column for table, column in printed.items() if any(name in column for name in order)}
    rows = []
    for name in order:
        here = [by_set.get(name) for by_set in values.values()]
        highest = max(value.mean for value in here if value)
        cells = [Strong(percent(value)) if value and value.mean == highest else percent(value) for value in here]
        rows.append((name, *cells, *(percent(column.get(name)) for column in printed.values())))
    measured = [f"{method}, {selection}" for method in values]
    headings = [f"{published.OWN}, {published.source(table).where}, published" for table in printed]
    caption = (
        f"Accuracy in percent, mean ± deviation over seeds; best of what was measured here in bold ({selection})"
    )
    table = Table(caption, ("set", *measured, *headings), tuple(rows))
    return Folded(f"All {len(order)} sets, one by one", (table,))


def _score_table(caption: str, methods: Mapping[str, Mapping[str, Estimate]], names: Sequence[str]) -> Table:
    rows = tuple(
        (method, *(score_text(name, scores.get(name)) for name in names)) for method, scores in methods.items()
    )
    return Table(caption, ("method", *(SCORE_NAMES[name] for name in names)), rows)


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _number(value: Estimate | float | None, scale: float, decimals: int) -> str:
    if value is None:
        return UNKNOWN
    mean, std = value if isinstance(value, Estimate) else (value, None)
    deviation = "" if std is None else f" ± {scale * std:.{decimals}f}"
    return f"{scale * mean:.{decimals}f}{deviation}"
