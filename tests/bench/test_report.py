"""All results here are invented: they test the report, not a method."""

import json
import re
from dataclasses import asdict
from html.parser import HTMLParser
from itertools import pairwise
from typing import NamedTuple

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nutime.bench import ablations, published
from nutime.bench.page import Page
from nutime.bench.report import build_report, read_scaling, write_report
from nutime.bench.results import Result, collect, overall, read_results, seed_means
from nutime.bench.statistics import Estimate
from nutime.cli import bench_report
from nutime.figures.labelling import labels_needed

VERSIONS = {"nutime": "0", "torch": "invented"}
SETS = ("ucr/Adiac", "ucr/Beef", "ucr/Coffee", "ucr/Meat", "ucr/Wine", "ucr/Yoga")


def result(
    protocol="fewshot",
    dataset="ucr/Meat",
    method="nutime-base",
    selection="honest",
    seed=0,
    config=None,
    **scores,
):
    scores = scores or {"accuracy": 0.5, "macro_f1": 0.4}
    return Result(protocol, dataset, method, selection, seed, scores, 61.0, config or {}, "abacus", VERSIONS)


def over_sets(accuracies, **fields):
    return [
        result(dataset=name, accuracy=value, macro_f1=value / 2, **fields)
        for name, value in zip(SETS, accuracies, strict=False)
    ]


OURS = over_sets([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
PEER = over_sets([0.2, 0.1, 0.3, 0.3, 0.4, 0.5], method="MiniRocket")
CHEATING = over_sets([0.9, 0.9, 0.9, 0.9, 0.9, 0.9], selection="paper")


class Table(NamedTuple):
    caption: str
    header: list[str]
    rows: list[list[str]]


@pytest.fixture(scope="module")
def report():
    """Return the report that most tests read; drawing it takes seconds."""
    return build_report(OURS + PEER + CHEATING)


def tables(page, caption=""):
    """Return the tables of a page's Markdown whose caption contains a text."""
    found = []
    blocks = page.markdown().split("\n\n")
    for title, block in pairwise(blocks):
        if block.startswith("|") and caption in title:
            header, _, *rows = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in block.splitlines())
            found.append(Table(title, header, rows))
    return found


def row_of(table, first):
    [row] = [row for row in table.rows if row[0].strip("*") == first]
    return {name: cell.strip("*") for name, cell in zip(table.header, row, strict=True)}


def write(path, results):
    lines = (json.dumps(asdict(one), ensure_ascii=False) for one in results)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_summary_has_means_ranks_and_what_was_compared(report):
    summary, _ = tables(report, "Measured here")
    assert "the 6 sets" in summary.caption
    ours = row_of(summary, "nutime-base")
    assert ours["accuracy, %, honest"] == "35.0"
    assert ours["macro-F1, %, honest"] == "17.5"
    assert ours["average rank"] == "1.25"
    assert row_of(summary, "MiniRocket")["nutime-base wins/ties/losses"] == "4/1/1"


def test_honest_and_paper_numbers_never_share_a_table(report):
    for table in tables(report):
        cells = {cell.strip("*") for row in table.rows for cell in row}
        assert not ({"35.0", "90.0"} <= cells), table.caption
        assert not {"accuracy, %, honest", "accuracy, %, paper"} <= set(table.header)


def test_every_section_is_labelled_with_its_selection(report):
    assert re.findall("### Protocol fewshot `(.*)`", report.markdown()) == ["honest", "paper"]


def test_the_papers_column_is_averaged_over_the_same_sets(report):
    beside, _ = tables(report, "Beside Table")
    column = published.column("fewshot41")
    expected = sum(column[name.removeprefix("ucr/")] for name in SETS) / 6
    row = row_of(beside, "nutime-base")
    assert row["sets"] == "6"
    assert row["accuracy, %, published"] == f"{100 * expected:.1f}"
    assert row["difference, points"] == f"{35.0 - 100 * expected:+.1f}"


def test_a_mean_beside_the_papers_is_that_of_the_exact_values():
    page = build_report(over_sets([0.35049, 0.35049, 0.35149]))
    found = [row_of(table, "nutime-base")["accuracy, %, honest"] for table in tables(page, "Beside Table")]
    assert found == ["35.1"]  # of values rounded like the paper's it would be 35.0


def test_a_peer_stands_beside_its_own_published_column():
    results = [result("finetune", "ucr/Beef", method, accuracy=0.5) for method in ("nutime-base", "MiniRocket")]
    [beside, _] = tables(build_report(results), "Beside Table")
    row = row_of(beside, "MiniRocket")
    assert row["column of the paper"] == "MiniRocket"
    assert row["accuracy, %, published"] == "83.3"


@pytest.mark.parametrize(("found", "ranked"), [(OURS, False), (CHEATING, True)], ids=["honest", "paper"])
def test_the_papers_own_column_ranks_only_among_results_selected_like_it(found, ranked):
    columns = seed_means(collect(found, "fewshot", found[0].selection))
    joined = published.beside_published(columns, "fewshot41", found[0].selection)
    assert ("NuTime (published)" in joined) == ranked
    assert "BOSS (published)" in joined


def test_seeds_are_averaged_set_by_set():
    seeds = [result(seed=seed, accuracy=value) for seed, value in enumerate((0.4, 0.5, 0.6))]
    page = build_report(seeds)
    [one_by_one] = tables(page, "mean ± deviation over seeds")
    assert row_of(one_by_one, "Meat")["nutime-base, honest"] == "50.0 ± 10.0"
    [summary] = tables(page, "Measured here")
    assert row_of(summary, "nutime-base")["accuracy, %, honest"] == "50.0 ± 10.0"


def test_the_deviation_of_a_mean_is_that_of_the_seeds_means():
    by_set = {"a": {0: 0.1, 1: 0.3}, "b": {0: 0.3, 1: 0.1}}
    assert overall(by_set, ["a", "b"]) == pytest.approx((0.2, 0.0))
    uneven = {"a": {0: 0.1, 1: 0.3}, "b": {0: 0.3}}
    mean, std = overall(uneven, ["a", "b"])
    assert mean == pytest.approx(0.25)
    assert std is None


def test_a_method_tried_on_a_few_sets_does_not_shrink_the_comparison():
    few = over_sets([0.9, 0.9], method="InceptionTime")
    page = build_report(OURS + PEER + few)
    [summary] = tables(page, "Measured here")
    assert "the 6 sets" in summary.caption
    assert "InceptionTime (2 sets)" in page.markdown()
    [one_by_one] = tables(page, "mean ± deviation")
    assert row_of(one_by_one, "Adiac")["InceptionTime, honest"] == "90.0"
    assert one_by_one.rows[0][:4] == ["Adiac", "10.0", "20.0", "**90.0**"]
    assert row_of(one_by_one, "Yoga")["InceptionTime, honest"] == "–"


def test_scores_of_a_single_set_stand_beside_the_published_ones():
    runs = [
        result("clustering", "tfc/Epilepsy", seed=seed, silhouette=0.25, ari=value, nmi=0.125)
        for seed, value in enumerate((0.25, 0.75))
    ]
    ours, theirs = tables(build_report(runs), "tfc/Epilepsy")
    assert row_of(ours, "nutime-base") == {
        "method": "nutime-base",
        "silhouette": "0.250 ± 0.000",
        "ARI": "0.500 ± 0.354",
        "NMI": "0.125 ± 0.000",
    }
    assert row_of(theirs, "TF-C")["NMI"] == "0.557 ± 0.017"
    assert "Table 7" in theirs.caption


def ablation(protocol, accuracies, **fields):
    return [
        result(protocol, name, variant, accuracy=value, macro_f1=value, **fields)
        for variant, value in accuracies.items()
        for name in SETS[:2]
    ]


def without_deviation(scores):
    return {variant: Estimate(value) for variant, value in scores.items()}


def test_an_ablation_states_how_its_variants_were_pretrained():
    schedule = {"pretraining": {"steps": 2000, "batch": 512, "series": 52259}}
    alone = {"pretraining": {"steps": 10, "batch": 8, "series": "training series of the set"}}
    results = ablation("ablation-corpus", {"all sets": 0.7}, config=schedule)
    results += ablation("ablation-corpus", {"each set alone": 0.6}, config=alone)
    text = build_report(results).markdown()
    assert "Pretrained for 2,000 steps of 512 series, drawn from 52,259; the paper" in text
    assert "Pretrained for 10 steps of 8 series, drawn from the training series of the set; the paper" in text


def test_an_ablation_stands_beside_the_papers_with_a_verdict():
    page = build_report(ablation("ablation-window", {"window 8": 0.6, "window 16": 0.7, "window 32": 0.5}))
    [table] = tables(page, "fine-tuned")
    assert "here over 2 sets" in table.caption
    row = row_of(table, "window 16")
    assert row["accuracy, %, honest"] == "70.0"
    assert row["accuracy, %, published"] == "86.9 ± 0.1"
    assert row_of(table, "window 4")["accuracy, %, honest"] == "–"
    assert "The paper's ordering holds: 3 of 3 pairs of variants have its order" in page.markdown()


def test_variants_from_scratch_are_a_table_of_their_own():
    scratch = {f"{variant}{ablations.FROM_SCRATCH}": value for variant, value in (("NME", 0.2), ("IN", 0.1))}
    page = build_report(ablation("ablation-encoding", {"NME": 0.8, "IN": 0.7, **scratch}))
    [tuned], [untuned] = tables(page, "fine-tuned:"), tables(page, "from scratch:")
    assert row_of(tuned, "NME")["accuracy, %, honest"] == "80.0"
    assert row_of(untuned, "NME")["accuracy, %, honest"] == "20.0"


def test_the_weighting_is_judged_and_drawn():
    accuracies = {
        "1 scale, weighted": 0.5,
        "1 scale, plain": 0.5,
        "9 scales, weighted": 0.8,
        "9 scales, plain": 0.6,
    }
    page = build_report(ablation("ablation-weighting", accuracies))
    assert "holds in part: it is ahead at 1 of 2 numbers of scales, by +10.0 points" in page.markdown()
    assert "ablation-weighting-honest" in page.figures


def test_variants_without_a_common_set_are_not_averaged():
    page = build_report(
        [result("ablation-dim", SETS[0], "scalar dim 4"), result("ablation-dim", SETS[1], "scalar dim 8")]
    )
    assert "no data set in common" in page.markdown()


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ({"a": 3, "b": 2, "c": 1}, "The paper's ordering holds: 3 of 3"),
        ({"a": 3, "b": 1, "c": 2}, "is best here too; its ordering holds in part: 2 of 3"),
        ({"a": 0.1, "b": 0.2, "c": 0.3}, "does not hold: 0 of 3 .* a, has rank 3 here, 20.0 points behind c"),
        ({"a": 1, "z": 2}, "cannot be judged"),
    ],
)
def test_the_verdict_on_an_ordering(ours, verdict):
    verdict_here = ablations.judge_ordering(without_deviation(ours), {"a": 0.9, "b": 0.8, "c": 0.7})
    assert re.search(verdict, verdict_here)
    assert "less than the deviation" not in verdict_here


def test_the_verdict_on_an_ordering_takes_the_deviation_between_seeds_into_account():
    ours = {"a": Estimate(0.80, 0.02), "b": Estimate(0.81, 0.001)}
    assert "1.0 points behind b, less than the deviation between seeds" in ablations.judge_ordering(
        ours, {"a": 0.9, "b": 0.8}
    )


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 1000), min_size=2))
def test_an_ordering_agrees_with_itself_and_never_with_its_reverse(scores):
    backwards = {variant: -value for variant, value in scores.items()}
    if len(set(scores.values())) > 1:
        assert "ordering holds:" in ablations.judge_ordering(without_deviation(scores), scores)
        assert "ordering holds:" not in ablations.judge_ordering(without_deviation(backwards), scores)


def missing_part(page):
    return page.markdown().partition("## What is missing")[2]


def test_what_is_missing_is_listed():
    missing = missing_part(build_report(OURS + over_sets([0.5], method="MiniRocket")))
    assert "Protocols not run: probe, finetune, uea" in missing
    assert "no result on 34 of the paper's 40 sets (BeetleFly, BirdChicken" in missing
    assert "Meat" not in re.findall(r"\((BeetleFly.*?)\)", missing)[0].split(", ")
    assert "MiniRocket has no result on 5 set(s) of other methods" in missing
    assert "Run, but not with the selection paper: fewshot" in missing


def test_missing_variants_are_listed():
    missing = missing_part(build_report(ablation("ablation-corpus", {"all sets": 0.5})))
    assert "no result of each set alone (fine-tuned)" in missing


def test_seeds_device_time_and_versions_are_stated():
    page = build_report([result(seed=seed) for seed in range(3)])
    [runs] = tables(page, "Wall time")
    row = row_of(runs, "fewshot")
    assert (row["seeds"], row["device"], row["wall time"]) == ("0–2", "abacus", "3 min")
    assert "nutime 0, torch invented" in page.markdown()


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sets(st.integers(0, 17), min_size=1))
def test_any_part_of_the_results_makes_a_report_with_every_method(chosen):
    everything = [*OURS, *PEER, *CHEATING]
    part = [everything[index] for index in sorted(chosen)]
    names = {cell.strip("*") for table in tables(build_report(part)) for row in table.rows for cell in row}
    assert {one.method for one in part} <= names


class Reader(HTMLParser):
    """Collects the references of a page, and checks that its elements are closed in order."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(tmp_path):
    page, _ = write_report([write(tmp_path / "r.jsonl", OURS + PEER)], tmp_path / "out")
    text = page.read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert {"svg", "table", "style"} <= set(reader.seen)
    assert not {"script", "link", "img", "iframe"} & set(reader.seen)
    assert all(link.startswith("#") or "openreview.net" in link for link in reader.links)
    assert "prefers-color-scheme: dark" in text
    assert "url(http" not in text


def test_markdown_has_the_same_tables_and_its_pictures_exist(report, tmp_path):
    _, markdown = write_report([write(tmp_path / "r.jsonl", OURS + PEER + CHEATING)], tmp_path)
    text = markdown.read_text()
    for table in tables(report):
        assert table.caption in text
        assert all(row[0] in text for row in table.rows)
    files = re.findall(r"\]\((figures/.*?\.svg)\)", text)
    assert files
    assert all((tmp_path / name).is_file() for name in files)


def test_names_cannot_break_the_page_or_the_table():
    nasty = 'nutime <b>|"&'
    page = build_report(over_sets([0.1, 0.2, 0.3], method=nasty) + PEER)
    reader = Reader()
    reader.feed(page.html())
    assert reader.open == []
    assert "b" not in reader.seen
    rows = [line for line in page.markdown().splitlines() if line.startswith("| **nutime <b>")]
    assert rows
    assert all(line.replace("\\|", "").count("|") == 8 for line in rows)
    assert "<strong>nutime &lt;b&gt;|&quot;&amp;</strong>" in page.html()


def test_the_html_page_has_captions_folds_figures_labels_and_links(report):
    html = report.html()
    assert "<caption>Measured here, over the 6 sets common to all methods</caption>" in html
    assert html.count("<details><summary>") == html.count("</details>") == report.markdown().count("<details>")
    assert html.count("<figure><svg role=") == html.count("</figure>") == len(report.figures) > 0
    assert '<h3>Protocol fewshot <span class="label honest">honest</span></h3>' in html
    assert '<li><a href="#how-it-was-run">How it was run</a></li>' in html
    assert '<h2 id="how-it-was-run">How it was run</h2>' in html
    assert '<td style="text-align:right">' in html
    assert '<a href="https://openreview.net' in html
    assert "<p><div" not in html
    assert "<p><figure" not in html


def test_markup_in_a_title_is_escaped():
    assert "<title>&lt;b&gt;</title>" in Page("<b>").html()


def test_honest_results_are_compared_with_methods_published_elsewhere():
    theirs = published.columns("ucr_default_split")["HC2"]
    exact = {name: theirs[name.removeprefix("ucr/")] for name in SETS}
    better = [min(1.0, value + 0.01) for value in list(exact.values())[:3]]
    accuracies = [*better, *list(exact.values())[3:5], exact[SETS[5]] - 0.05]
    ours = over_sets(accuracies, protocol="finetune")
    [table] = tables(build_report(ours), "published elsewhere (tsml-eval")
    row = row_of(table, "HC2")
    wins = sum(new > old for new, old in zip(accuracies, exact.values(), strict=True))
    assert row["wins/ties/losses"] == f"{wins}/{5 - wins}/1"
    assert row["sets"] == "6"
    assert row["accuracy, %, published"] == f"{100 * sum(exact.values()) / 6:.1f}"
    assert 0 < float(row["p (Wilcoxon)"]) <= 1
    assert {line[0] for line in table.rows} >= {"MR-Hydra", "RDST", "H-InceptionTime", "QUANT", "MantisV2, frozen"}
    assert row_of(table, "MantisV2, frozen")["accuracy, %, published"] == "83.6"
    selected_on_test = build_report(over_sets(accuracies, protocol="finetune", selection="paper"))
    assert tables(selected_on_test, "published elsewhere") == []


def test_the_same_results_make_the_same_page(tmp_path):
    path = write(tmp_path / "r.jsonl", OURS[:2])
    first, second = (write_report([path], tmp_path / name)[0].read_bytes() for name in "ab")
    assert first == second


def test_several_files_are_one_report(tmp_path):
    paths = [write(tmp_path / "a.jsonl", OURS), write(tmp_path / "b.jsonl", PEER)]
    assert read_results(paths) == OURS + PEER


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: [folder / "none.jsonl"], "no such file"),
        (lambda folder: [write(folder / "a.jsonl", [])], "holds no results"),
        (lambda folder: [write(folder / name, OURS) for name in ("a.jsonl", "b.jsonl")], "is also in"),
        (lambda folder: [write(folder / "a.jsonl", [result("dance")])], r"unknown protocol\(s\) dance"),
    ],
)
def test_what_is_wrong_with_the_results_is_one_line(tmp_path, make, message):
    with pytest.raises(ValueError, match=message) as caught:
        write_report(make(tmp_path), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def simulation(random, suggest):
    return {
        "full": 1.0,
        "n_classes": 2,
        "n_train": 50,
        "labels": [2, 4, 8, 16],
        "random": random,
        "suggest": suggest,
    }


def test_simulated_labelling_has_a_figure_and_names_the_sets_that_need_more_labels(tmp_path):
    slow, fast = [0.5, 0.6, 0.8, 0.95], [0.5, 0.95, 0.96, 0.96]
    simulations = {"Meat": simulation(slow, fast), "Wine": simulation(slow, fast), "Ham": simulation(fast, slow)}
    path = tmp_path / "labelling.json"
    path.write_text(json.dumps(simulations))
    page, markdown = write_report([write(tmp_path / "r.jsonl", OURS[:1])], tmp_path / "out", path)
    text = markdown.read_text()
    assert (
        "0.25 in the median of 3 UCR training splits, fewer on 2. `suggest` needs more on Ham (4.00 times)."
        in text
    )
    assert (tmp_path / "out" / "figures" / "labelling.svg").is_file()
    assert "<figcaption>Simulated labelling" in page.read_text()


def test_measured_times_have_a_figure(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("varied,method,series,length,channels,fit_s,predict_s\nseries,ours,100,128,1,0.5,0.25\n")
    assert read_scaling(path) == [("ours", "series", 100, 0.75)]
    _, markdown = write_report([write(tmp_path / "r.jsonl", OURS[:1])], tmp_path / "out", scaling=path)
    assert (tmp_path / "out" / "figures" / "scaling.svg").is_file()
    assert "(figures/scaling.svg)" in markdown.read_text()


def test_labels_needed_are_interpolated_between_the_numbers_simulated():
    assert labels_needed(simulation([0.5, 0.9, 1.0, 1.0], [0.95, 1, 1, 1]), "random") == pytest.approx(6)
    assert labels_needed(simulation([0.5, 0.9, 1.0, 1.0], [0.95, 1, 1, 1]), "suggest") == 2
    assert labels_needed(simulation([0.5, 0.6, 0.7, 0.8], [0.95, 1, 1, 1]), "random") == 16


def test_notes_beside_results_are_of_these_results_alone(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "notes.json").write_text(json.dumps({OURS[0].protocol: "Read twice."}))
    reports = [
        write_report([write(tmp_path / name / "r.jsonl", OURS)], tmp_path / name)[1].read_text("utf-8")
        for name in ("a", "b")
    ]
    assert ["Read twice." in text for text in reports] == [True, False]


def test_the_command_writes_both_and_prints_their_paths(tmp_path):
    app = typer.Typer()
    app.command()(bench_report.report)
    path = write(tmp_path / "r.jsonl", OURS[:1])
    done = CliRunner().invoke(app, [str(path), "-o", str(tmp_path / "out")])
    assert done.stdout.split()[1::2] == [str(tmp_path / "out" / name) for name in ("report.html", "report.md")]
    assert (tmp_path / "out" / "report.md").read_text().startswith("# Benchmark of nutime")
