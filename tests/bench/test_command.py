"""``nutime bench run``: a table of results, and one line per set that cannot be run."""

import pytest
from bench_data import tiny_encoder, write_set

from nutime.atomic import Journal
from nutime.bench.results import ResultFile, is_own


def test_two_runs_append_each_result_once_and_several_processes_find_what_one_finds(nutime, tmp_path):
    write_set(tmp_path, "Chinatown")
    write_set(tmp_path, "Coffee")
    tiny_encoder().save(tmp_path / "tiny")
    out, alone = tmp_path / "results.jsonl", tmp_path / "alone.jsonl"
    where = ("--weights", tmp_path / "tiny", "--data-dir", tmp_path, "--device", "cpu")
    runs = [
        nutime("bench", "run", "probe", *where, "-o", file, "--sets", sets, "--jobs", jobs)
        for file, sets, jobs in (
            (out, "Chinatown,Beef", 2),
            (out, "Chinatown,Coffee", 1),
            (alone, "Chinatown,Beef", 1),
        )
    ]
    assert [done.code for done in runs] == [0, 0, 0], runs
    assert all("not run: Beef" in runs[index].err for index in (0, 2))
    assert [result.dataset for result in ResultFile(out)] == ["ucr/Chinatown", "ucr/Coffee"]
    assert "probe, honest protocol" in runs[1].out
    assert next(iter(ResultFile(out))).scores == next(iter(ResultFile(alone))).scores


def test_other_weights_in_the_same_folder_have_results_of_their_own(nutime, tmp_path):
    write_set(tmp_path, "Chinatown")
    encoder, out = tmp_path / "tiny", tmp_path / "results.jsonl"
    where = ("--weights", encoder, "--data-dir", tmp_path, "--device", "cpu", "--sets", "Chinatown", "-o", out)
    for seed in (0, 0, 1):
        tiny_encoder(seed).save(encoder)
        assert nutime("bench", "run", "probe", *where).code == 0
    methods = [result.method for result in ResultFile(out)]
    assert len(methods) == len(set(methods)) == 2
    assert all(is_own(method) and str(encoder) in method for method in methods)


def test_a_file_that_another_benchmark_appends_to_is_refused(nutime, tmp_path):
    out = tmp_path / "results.jsonl"
    with Journal(out):
        done = nutime("bench", "run", "probe", "--sets", "Chinatown", "--data-dir", tmp_path, "-o", out)
    assert done.code == 1
    assert "results.jsonl: is open in another process" in done.err


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["probing"], "'probing' is not one of probe, finetune, ucr"),
        (["uea", "--list", "112"], "uea has the lists 29, 26"),
        (["ablation-window", "--jobs", "2"], "runs in one process"),
        (["ablation-window", "--weights", "nutime-small"], "ablation-window does not use it"),
        (["probe", "--corpus", "corpus"], "probe does not use it"),
        *(([name, "--models", "3"], f"{name} does not use it") for name in ("probe", "fewshot", "forecast")),
        (["tfc", "--models", "0"], "--models"),
    ],
)
def test_contradictory_options_are_refused(nutime, arguments, about, tmp_path):
    done = nutime("bench", "run", *arguments, "-o", tmp_path / "results.jsonl")
    assert done.code == 2
    assert about in " ".join(done.err.replace("│", " ").split())
    assert not (tmp_path / "results.jsonl").exists()
