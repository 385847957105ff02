"""``nutime bench run``: a table of results, and one line per set that cannot be run."""

import subprocess
import sys

import pytest
from bench_data import tiny_encoder, write_set

from nutime.bench.results import ResultFile


def bench(*arguments):
    command = [sys.executable, "-m", "nutime", "bench", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_two_processes_append_each_result_once(tmp_path):
    write_set(tmp_path, "Chinatown")
    write_set(tmp_path, "Coffee")
    tiny_encoder().save(tmp_path / "tiny")
    out = tmp_path / "results.jsonl"
    where = ("--weights", tmp_path / "tiny", "--data-dir", tmp_path, "-o", out, "--device", "cpu")
    runs = [
        bench("probe", *where, "--sets", sets, "--jobs", 2)
        for sets in ("Chinatown,Beef", "Chinatown,Coffee")
    ]  # fmt: skip
    assert [done.returncode for done in runs] == [0, 0], runs
    assert "not run: Beef" in runs[0].stderr
    assert [result.dataset for result in ResultFile(out)] == ["ucr/Chinatown", "ucr/Coffee"]
    assert "probe, honest protocol" in runs[1].stdout


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["probing"], "'probing' is not one of probe, finetune, ucr"),
        (["uea", "--list", "112"], "uea has the lists 29, 26"),
        (["ablation-window", "--jobs", "2"], "runs in one process"),
    ],
)
def test_contradictory_options_are_refused(arguments, about, tmp_path):
    done = bench(*arguments, "-o", tmp_path / "results.jsonl")
    assert done.returncode == 2
    assert about in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "results.jsonl").exists()
