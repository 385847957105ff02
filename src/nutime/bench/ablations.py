"""The paper's ablations beside ours, and whether its ordering of the variants holds.

A variant is a method called as in the published tables (``window 16``, ``NME``, ``9 scales, plain``), with
``, from scratch`` behind it where training did not begin from a pretrained encoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from nutime.bench import published
from nutime.bench.gather import Runs, collect, overall
from nutime.bench.results import Result
from nutime.bench.statistics import Estimate, common_sets

FROM_SCRATCH = ", from scratch"
#: How training began: as the published tables say it, and as a reader likes it.
STARTS = {"finetuned": "fine-tuned", "scratch": "from scratch"}
_WEIGHTING = re.compile(r"(\d+) scales?, (weighted|plain)")
_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


class Ablation(NamedTuple):
    """Variants that began alike, over the sets that all of them have.

    Attributes:
        variants: name to score to mean over the sets.
        sets: the data sets averaged over.
    """

    variants: dict[str, dict[str, Estimate]]
    sets: tuple[str, ...]


def measured(results: list[Result], protocol: str, selection: str) -> dict[str, Ablation]:
    """Return what was measured: how training began to its ablation; nothing where there are no results."""
    found = {}
    runs = {score: collect(results, protocol, selection, score) for score in ("accuracy", "macro_f1")}
    for start in STARTS:
        here = {score: _beginning(all_runs, start) for score, all_runs in runs.items()}
        if not here["accuracy"]:
            continue
        sets = common_sets(here["accuracy"].values())
        variants: dict[str, dict[str, Estimate]] = {variant: {} for variant in here["accuracy"]}
        for score, by_variant in here.items():
            for variant, by_set in by_variant.items():
                if sets and all(name in by_set for name in sets):
                    variants[variant][score] = overall(by_set, sets)
        found[start] = Ablation(variants, sets)
    return found


def as_published(protocol: str) -> dict[str, published.ScoreTable]:
    """Return the paper's values: how training began to variant to score; empty where it prints none."""
    found: dict[str, published.ScoreTable] = {}
    for table in published.ABLATIONS[protocol]:
        found.update(published.scores(table))
    return found


def schedules(results: Iterable[Result]) -> list[str]:
    """Say how the variants were pretrained, a sentence for every schedule there is."""
    stated = (result.config["pretraining"] for result in results if "pretraining" in result.config)
    return list(
        dict.fromkeys(
            f"Pretrained for {schedule['steps']:,} steps of {schedule['batch']:,} series, drawn from "
            f"{_amount(schedule['series'])}; the paper pretrains for 100 epochs."
            for schedule in stated
        )
    )


def judge_ordering(measured: Mapping[str, Estimate], theirs: Mapping[str, float]) -> str:
    """Say in a sentence whether variants stand in the same order here and in the paper."""
    ours = {variant: estimate.mean for variant, estimate in measured.items()}
    shared = [variant for variant in theirs if variant in ours]
    if len(shared) < 2:
        return "Fewer than two of the paper's variants were measured, so its ordering cannot be judged."
    pairs = [(a, b) for a, b in combinations(shared, 2) if theirs[a] != theirs[b]]
    agreeing = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
    best = max(shared, key=lambda variant: theirs[variant])
    ours_best = max(shared, key=lambda variant: ours[variant])
    count = f"{agreeing} of {len(pairs)} pairs of variants stand in its order"
    if agreeing == len(pairs):
        return f"The paper's ordering holds: {count}, and {best} is best."
    if ours[best] == ours[ours_best]:
        return f"The paper's best variant, {best}, is best here too; its ordering holds in part: {count}."
    place = 1 + sum(ours[variant] > ours[best] for variant in shared)
    behind = ours[ours_best] - ours[best]
    deviation = max(measured[variant].std or 0 for variant in (best, ours_best))
    noise = ", which is less than seeds differ" if behind < deviation else ""
    return (
        f"The paper's ordering does not hold: {count}, and its best variant, {best}, is {_ordinal(place)} here, "
        f"{100 * behind:.1f} points behind {ours_best}{noise}."
    )


def weighting_lines(ablation: Ablation) -> dict[str, dict[int, float]]:
    """Return ``ablation-weighting`` as lines: way to average over scales to number of scales to accuracy."""
    lines: dict[str, dict[int, float]] = {}
    for variant, scores in ablation.variants.items():
        if (parts := _WEIGHTING.fullmatch(variant)) and "accuracy" in scores:
            lines.setdefault(parts[2], {})[int(parts[1])] = scores["accuracy"].mean
    return lines


def judge_weighting(lines: Mapping[str, Mapping[int, float]]) -> str:
    """Say in a sentence whether weighting the scales helps, which the paper shows without numbers."""
    weighted, plain = lines.get("weighted", {}), lines.get("plain", {})
    shared = sorted(set(weighted) & set(plain))
    if not shared:
        return "No number of scales was measured both with and without the weighting."
    ahead = [count for count in shared if weighted[count] > plain[count]]
    gain = 100 * sum(weighted[count] - plain[count] for count in shared) / len(shared)
    verdict = "holds" if len(ahead) == len(shared) else "holds in part" if ahead else "does not hold"
    return (
        f"The paper's claim that the weighted average is the better one {verdict}: it is ahead at {len(ahead)} of "
        f"{len(shared)} numbers of scales, by {gain:+.1f} points on average."
    )


def _beginning(runs: Runs, start: str) -> Runs:
    """Return the variants that began in one way, under their names in the published tables."""
    scratch = start == "scratch"
    return {
        method.removesuffix(FROM_SCRATCH): by_set
        for method, by_set in runs.items()
        if method.endswith(FROM_SCRATCH) == scratch
    }


def _amount(series: int | str) -> str:
    return f"{series:,}" if isinstance(series, int) else f"the {series}"


def _ordinal(place: int) -> str:
    return f"{place}{'th' if 10 < place % 100 < 14 else _ORDINALS.get(place % 10, 'th')}"
