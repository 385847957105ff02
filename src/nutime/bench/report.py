"""The benchmark as one page: what was measured, beside what the paper printed, and what is missing.

Nothing on the page is guessed: it is made of the lines of results and of the published tables, and what neither
holds is listed as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from nutime.bench import ablations, published, sections
from nutime.bench.document import Block, Bullets, Heading, Paragraph, Table, pictures, to_html, to_markdown
from nutime.bench.gather import collect, filed, mean, own_best, read_results, seed_means, set_key
from nutime.bench.results import SELECTIONS, Result
from nutime.bench.statistics import common_sets
from nutime.figures import style

TITLE = "Benchmark of nutime"
TITLES = {
    "probe": "Frozen encoder, linear classifier",
    "finetune": "Fine-tuned models and their ensemble",
    "uea": "UEA archive",
    "fewshot": "Five labelled series a class",
    "tfc": "The sets of TF-C",
    "clustering": "Clustering",
    "anomaly": "Anomaly detection",
    "ablation-encoding": "Ablation: encoding of the values",
    "ablation-scales": "Ablation: number of scales",
    "ablation-window": "Ablation: window size",
    "ablation-dim": "Ablation: width of a scalar's embedding",
    "ablation-weighting": "Ablation: weighting of the scales",
    "ablation-corpus": "Ablation: pretraining data",
}
NOTES = {
    "probe": "The paper never freezes its encoder: its column here was fine-tuned, and is not like for like.",
}
SELECTION_NOTES = (
    "`honest`: nothing was chosen on test data. The default everywhere, and the number to quote.",
    "`paper`: the epoch that is best on the test set, which is what the authors' released code reports for "
    "archives without a validation split. Such numbers are too high, and are here only to be held against the "
    "paper's own.",
    "`published`: printed in the paper. Its NuTime was selected like `paper`; the other columns come from their "
    "own authors.",
)
TEST_SELECTED = "The best epoch was chosen on the test set: compare these numbers with the paper's and no others."
_PICTURES = "figures"


class Written(NamedTuple):
    """Where the report was written."""

    html: Path
    markdown: Path


def write_report(paths: Iterable[str | Path], folder: str | Path) -> Written:
    """Read files of results; write ``report.html``, ``report.md`` and its ``figures`` into ``folder``."""
    blocks = build_report(read_results(paths))
    folder = Path(folder)
    (folder / _PICTURES).mkdir(parents=True, exist_ok=True)
    for picture in pictures(blocks):
        path = folder / _PICTURES / f"{picture.name}.svg"
        path.write_text(style.standalone(picture.svg), encoding="utf-8")
    written = Written(folder / "report.html", folder / "report.md")
    written.html.write_text(to_html(TITLE, blocks), encoding="utf-8")
    written.markdown.write_text(to_markdown(TITLE, blocks, _PICTURES), encoding="utf-8")
    return written


def build_report(results: list[Result]) -> list[Block]:
    """Return the blocks of the report."""
    unknown = sorted({result.protocol for result in results} - set(published.PROTOCOLS))
    if unknown:
        raise ValueError(
            f"results of unknown protocol(s) {', '.join(unknown)}; known are {', '.join(published.PROTOCOLS)}"
        )
    blocks: list[Block] = [Paragraph(_introduction(results)), Bullets(SELECTION_NOTES), *_at_a_glance(results)]
    for protocol in published.PROTOCOLS:
        if not any(result.protocol == protocol for result in results):
            continue
        blocks.append(Heading(2, TITLES[protocol]))
        blocks += [Paragraph(NOTES[protocol])] if protocol in NOTES else []
        for selection in SELECTIONS:
            if filed(results, protocol, selection):
                blocks.append(Heading(3, f"Protocol {protocol}", selection))
                blocks += [Paragraph(TEST_SELECTED)] if selection == "paper" else []
                blocks += _section(results, protocol, selection)
    return [*blocks, *_how_it_was_run(results), *_missing(results)]


def _section(results: list[Result], protocol: str, selection: str) -> list[Block]:
    if protocol in published.PER_SET:
        return sections.per_set_section(results, protocol, selection)
    if protocol in published.BY_METHOD:
        return sections.by_method_section(results, protocol, selection)
    return sections.ablation_section(results, protocol, selection)


def _introduction(results: Sequence[Result]) -> str:
    methods = {result.method for result in results if not result.protocol.startswith("ablation")}
    sets = {set_key(result.dataset) for result in results}
    return (
        f"{len(results):,} results of {len(methods)} methods on {len(sets)} data sets, beside the paper's tables. "
        "Every comparison is over the sets that all its methods have, and says how many these are. "
        f"The paper: {published.citation()}"
    )


def _at_a_glance(results: Sequence[Result]) -> list[Block]:
    """Return a table a selection: nutime's best method of each classification protocol, and the paper's."""
    text_columns = ("best of nutime", "on the sets of")
    blocks: list[Block] = []
    for selection in SELECTIONS:
        rows = []
        for protocol, tables in published.PER_SET.items():
            columns = seed_means(collect(results, protocol, selection))
            if (best := own_best(columns)) is None:
                continue
            for table in tables:
                theirs = published.column(table)
                if sets := common_sets([columns[best], theirs]):
                    means = (sections.percent(mean(column, sets)) for column in (columns[best], theirs))
                    where = f"{published.source(table).where}, {len(sets)} sets"
                    rows.append((TITLES[protocol], best, where, *means))
        if rows:
            header = ("protocol", *text_columns, f"accuracy, %, {selection}", "accuracy, %, published")
            caption = "Mean over the sets named, of nutime and of the paper's NuTime"
            blocks += [Heading(3, "At a glance", selection), Table(caption, header, tuple(rows), text_columns)]
    return blocks


def _how_it_was_run(results: Sequence[Result]) -> list[Block]:
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        method = "all variants" if result.protocol in published.ABLATIONS else result.method
        groups.setdefault((result.protocol, method, result.selection), []).append(result)
    rows = []
    for (protocol, method, selection), members in groups.items():
        sets = str(len({result.dataset for result in members}))
        seeds = _seed_text(sorted({result.seed for result in members}))
        devices = ", ".join(dict.fromkeys(result.device for result in members))
        wall_time = _duration(sum(result.seconds for result in members))
        rows.append((protocol, method, selection, sets, seeds, devices, wall_time))
    rows.sort(key=lambda row: published.PROTOCOLS.index(row[0]))
    text_columns = ("method", "selection", "seeds", "device")
    header = ("protocol", "method", "selection", "sets", "seeds", "device", "wall time")
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in result.versions.items()) for result in results
    )
    return [
        Heading(2, "How it was run"),
        Table(
            "Wall time of fitting and predicting, over sets and seeds; models of an ensemble state the ensemble's",
            header,
            tuple(rows),
            text_columns,
        ),
        Bullets(tuple(f"Versions: {text}" for text in versions)),
    ]


def _missing(results: list[Result]) -> list[Block]:
    """List what the benchmark asks for and the results do not have."""
    items = []
    run = {result.protocol for result in results}
    if absent := [protocol for protocol in published.PROTOCOLS if protocol not in run]:
        items.append(f"Protocols not run: {', '.join(absent)}.")
    for protocol in published.PROTOCOLS:
        for selection in SELECTIONS:
            here = filed(results, protocol, selection)
            if here and (text := _gaps(here, protocol, selection)):
                items.append(f"{protocol}, {selection}: {text}.")
    for selection in SELECTIONS:
        without = [name for name in published.PROTOCOLS if name in run and not filed(results, name, selection)]
        if without:
            items.append(f"Run, but not with the selection {selection}: {', '.join(without)}.")
    if not items:
        items.append("Nothing: every protocol has results of every method on every set of the paper's tables.")
    return [Heading(2, "What is missing"), Bullets(tuple(items))]


def _gaps(results: list[Result], protocol: str, selection: str) -> str:
    """Say which sets (or variants) of the paper no method has, and which methods lack sets that others have."""
    if protocol in published.ABLATIONS:
        lacking = []
        measured = ablations.measured(results, protocol, selection)
        for start, theirs in ablations.as_published(protocol).items():
            have = measured[start].variants if start in measured else {}
            lacking += [f"{name} ({ablations.STARTS[start]})" for name in theirs if name not in have]
        return f"no result of {', '.join(lacking)}" if lacking else ""
    wanted = _wanted_sets(protocol)
    by_method: dict[str, set[str]] = {}
    for result in results:
        by_method.setdefault(result.method, set()).add(set_key(result.dataset))
    any_method = set().union(*by_method.values())
    parts = []
    if lacking := [name for name in wanted if name not in any_method]:
        parts.append(f"no result on {len(lacking)} of the paper's {len(wanted)} sets ({', '.join(lacking)})")
    parts += [
        f"{method} has no result on {len(any_method - have)} set(s) that others have"
        for method, have in by_method.items()
        if any_method - have
    ]
    return "; ".join(parts)


def _wanted_sets(protocol: str) -> list[str]:
    """Return the sets of the paper's tables for a protocol."""
    if protocol in published.PER_SET:
        tables = [published.column(table) for table in published.PER_SET[protocol]]
        return list(dict.fromkeys(name for column in tables for name in column))
    by_set = [published.scores(table) for table in published.BY_METHOD[protocol]]
    benchmarks = ("ucr125", "uea29")  # whole archives, which have protocols of their own
    return [name for table in by_set for name in table if name not in benchmarks]


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
