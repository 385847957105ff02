"""Running a benchmark: resumed after a kill, stopped by Ctrl-C, and explicit about sets it cannot run."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import bench_job
import psutil
import pytest
from bench_data import QUICK, tiny_encoder, write_set
from bench_job import SETS

from nutime.bench.methods import Finetune, Probe
from nutime.bench.results import ResultFile
from nutime.bench.run import run
from nutime.finetune import train as trainer
from nutime.finetune.train import _Training


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.delenv("NUTIME_DATA", raising=False)
    monkeypatch.setenv("NUTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    for name in SETS:
        write_set(folder, name)
    return folder


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """Return the results of an uninterrupted benchmark."""
    out = tmp_path_factory.mktemp("whole") / "results.jsonl"
    bench_job.work(folder, out)
    return scores(out)


def start_job(folder, out):
    return subprocess.Popen([sys.executable, bench_job.__file__, str(folder), str(out)], stderr=subprocess.PIPE)


def wait_for_a_line(process, out):
    deadline = time.monotonic() + 120
    while not (out.exists() and out.read_bytes().count(b"\n")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def scores(out):
    return {result.key: result.scores for result in ResultFile(out)}


def test_a_killed_benchmark_goes_on_with_the_next_set_and_changes_no_number(folder, whole, tmp_path):
    out = tmp_path / "results.jsonl"
    process = start_job(folder, out)
    wait_for_a_line(process, out)
    process.kill()
    process.communicate()
    finished = len(ResultFile(out))
    assert 0 < finished < len(SETS)
    kept = out.read_bytes().splitlines(keepends=True)[:finished]

    bench_job.work(folder, out)
    lines = out.read_bytes().splitlines(keepends=True)
    assert lines[:finished] == kept
    assert len(lines) == len(SETS)
    assert scores(out) == whole


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_records_no_result_of_the_interrupted_training(folder, whole, tmp_path, monkeypatch):
    out = tmp_path / "results.jsonl"
    step = _Training.step
    steps = []

    def interrupted(self):
        steps.append(1)
        if len(steps) == 15:  # in the second set
            os.kill(os.getpid(), signal.SIGINT)
        step(self)

    monkeypatch.setattr(_Training, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench_job.work(folder, out)
    assert len(scores(out)) == 1
    assert scores(out).items() <= whole.items()


def test_a_finished_benchmark_needs_no_data_any_more(folder, tmp_path):
    file = ResultFile(tmp_path / "results.jsonl")
    methods = [Probe("nutime-tiny", tiny_encoder())]
    run("probe", methods, ["Chinatown"], file, data_dir=str(folder))
    reported = []
    (tmp_path / "empty").mkdir()
    state = run(
        "probe",
        methods,
        ["Chinatown"],
        file,
        data_dir=str(tmp_path / "empty"),
        report=lambda *about: reported.append(about),
    )
    assert state.complete == ("Chinatown",)
    assert [(dataset, method, len(results)) for dataset, method, results in reported] == [
        ("ucr/Chinatown", "nutime-tiny", 1)
    ]
    assert len(file) == 1


def test_missing_and_partial_sets_are_reported_and_the_others_run(folder, tmp_path):
    write_set(tmp_path, "Chinatown")
    (tmp_path / "ucr" / "Coffee.npz").write_bytes((folder / "ucr" / "Chinatown.npz").read_bytes())
    file = ResultFile(tmp_path / "results.jsonl")
    methods = [Probe("nutime-tiny", tiny_encoder())]
    state = run("probe", methods, ["Beef", "Chinatown", "Coffee"], file, data_dir=str(tmp_path))
    assert state.complete == ("Chinatown",)
    assert state.missing.keys() == {"Beef", "Coffee"}
    assert "not found" in state.missing["Beef"]
    assert "expected 28 series" in state.missing["Coffee"]
    assert [result.dataset for result in file] == ["ucr/Chinatown"]


ENDLESS_JOB = """
import os, sys, time
from nutime.bench.methods import Peer
from nutime.bench.results import ResultFile
from nutime.bench.run import run

def load(name, *, data_dir, started=sys.argv[1]):
    open(f"{started}/{os.getpid()}", "w").close()
    time.sleep(3600)

run("probe", [Peer("MiniRocket")], ["Coffee", "Beef"], ResultFile("none"), jobs=2, load=load)
"""


def test_workers_of_a_killed_benchmark_exit(tmp_path):
    main = subprocess.Popen([sys.executable, "-c", ENDLESS_JOB, tmp_path])
    workers = []
    try:
        deadline = time.monotonic() + 600
        while len(workers) < 2:
            assert main.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
            workers = [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
        main.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert alive == []
    finally:
        for process in (main, *workers):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        main.wait()


def test_a_folder_that_does_not_exist_is_an_error_and_not_a_list_of_missing_sets(tmp_path):
    file = ResultFile(tmp_path / "results.jsonl")
    with pytest.raises(ValueError, match="does not exist"):
        run("probe", [], ["Coffee"], file, data_dir=str(tmp_path / "typo"))


def test_results_of_the_papers_schedule_are_not_filed_as_those_of_a_plain_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    file = ResultFile(tmp_path / "results.jsonl")
    for selection in ("paper", "honest"):
        finetune = Finetune("nutime-tiny", tiny_encoder(), selection, n_estimators=2, params=QUICK)
        run("finetune", [finetune], ["Chinatown"], file, data_dir=str(folder))
    assert [result.selection for result in file] == ["paper"] * 3 + ["honest"] * 3
    best, last = ([result.scores["accuracy"] for result in list(file)[start : start + 2]] for start in (0, 3))
    assert all(one >= other for one, other in zip(best, last, strict=True))


def test_only_what_is_not_in_the_file_is_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    file = ResultFile(tmp_path / "results.jsonl")
    finetune = Finetune("nutime-tiny", tiny_encoder(), n_estimators=2, params=QUICK)
    run("finetune", [finetune], ["Chinatown"], file, data_dir=str(folder))
    before = file.path.read_text().splitlines()
    file.path.write_text("\n".join(before[1:]) + "\n")  # one of the three is lost
    file = ResultFile(file.path)
    run("finetune", [finetune], ["Chinatown"], file, data_dir=str(folder))
    after = file.path.read_text().splitlines()
    assert after[:2] == before[1:]
    assert json.loads(after[2])["scores"] == json.loads(before[0])["scores"]
