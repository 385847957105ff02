import json
import re
import subprocess
from dataclasses import asdict

import pytest

from nutime.bench.results import Result, ResultFile
from nutime.version import own_commit


def result(dataset="ucr/GunPoint", **changes):
    usual = {
        "method": "nutime-base",
        "selection": "honest",
        "seed": 0,
        "scores": {"accuracy": 0.5},
        "seconds": 1.0,
    }
    return Result("probe", dataset, **{**usual, **changes})


def test_what_was_appended_is_read_again(tmp_path):
    file = ResultFile(tmp_path / "deep" / "results.jsonl")
    file.append(result())
    file.append(result("ucr/Coffee"))
    assert list(ResultFile(file.path)) == [result(), result("ucr/Coffee")]
    assert result().key in ResultFile(file.path)
    assert result(seed=1).key not in ResultFile(file.path)


def test_a_result_is_written_once(tmp_path):
    file = ResultFile(tmp_path / "results.jsonl")
    file.append(result())
    with pytest.raises(ValueError, match="already holds probe / ucr/GunPoint"):
        file.append(result(scores={"accuracy": 0.9}))


@pytest.mark.parametrize("lost", [2, 30])
def test_a_line_torn_by_a_kill_is_ignored_and_cut_off_by_the_next_result(tmp_path, lost):
    path = tmp_path / "results.jsonl"
    for name in ("ucr/GunPoint", "ucr/Coffee"):
        ResultFile(path).append(result(name))
    torn = path.read_bytes()[:-lost]
    path.write_bytes(torn)
    file = ResultFile(path)
    assert [r.dataset for r in file] == ["ucr/GunPoint"]
    assert path.read_bytes() == torn  # reading changes nothing: another process may be writing
    file.append(result("ucr/Beef"))
    assert [json.loads(line)["dataset"] for line in path.read_text().splitlines()] == ["ucr/GunPoint", "ucr/Beef"]


def test_a_last_line_whose_end_an_editor_removed_is_a_result(tmp_path):
    path = tmp_path / "results.jsonl"
    for name in ("ucr/GunPoint", "ucr/Coffee"):
        ResultFile(path).append(result(name))
    path.write_bytes(path.read_bytes().rstrip())
    file = ResultFile(path)
    assert [r.dataset for r in file] == ["ucr/GunPoint", "ucr/Coffee"]
    for name in ("ucr/Beef", "ucr/Car"):
        file.append(result(name))
    assert [r.dataset for r in ResultFile(path)] == ["ucr/GunPoint", "ucr/Coffee", "ucr/Beef", "ucr/Car"]


def test_results_of_ucr_are_those_of_finetune_also_in_files_that_call_them_otherwise(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**asdict(result()), "protocol": "ucr"}) + "\n")
    assert [found.protocol for found in ResultFile(path)] == ["finetune"]


def test_a_line_that_is_no_result_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"protocol": "probe"}\n')
    with pytest.raises(ValueError, match=r"results\.jsonl, line 1: not a result"):
        ResultFile(path)


def test_every_result_has_its_selection_and_versions():
    assert {"nutime", "torch", "python"} <= result().versions.keys()
    with pytest.raises(ValueError, match="selection must be one of honest, paper; got 'best'"):
        result(selection="best")


def test_a_result_has_the_commit_of_a_checkout_and_whether_it_was_changed(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    package, untracked = tmp_path / "package", tmp_path / "site-packages"
    for folder in (package, untracked):
        folder.mkdir()
        (folder / "code.py").write_text("")
    git("init")
    git("add", "package")
    git("commit", "-m", "first")
    (tmp_path / "results.jsonl").write_text("a file outside the package is not a change of the code")
    commit = own_commit(package)
    assert re.fullmatch("[0-9a-f]{12}", commit)
    (package / "code.py").write_text("1")
    own_commit.cache_clear()
    assert own_commit(package) == f"{commit}+changes"
    assert own_commit(untracked) is None
    assert own_commit(tmp_path / "nowhere") is None
