"""``nutime suggest``, and what ``nutime label`` refuses before it serves anything."""

import csv

import pytest
from typer.testing import CliRunner

import nutime
from nutime.cli.main import app
from waves import wave_table


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Return a file of 20 waves with ids; the first four have a label."""
    X, y = wave_table(20)
    path = tmp_path_factory.mktemp("pool") / "pool.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", *(f"t{point}" for point in range(X.shape[1]))])
        for index, (values, label) in enumerate(zip(X, y, strict=True)):
            writer.writerow([f"wave{index}", label if index < 4 else "", *values])
    return path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_suggestions_are_positions_and_ids_of_unlabelled_series(pool, encoder):
    done = run("suggest", encoder, pool, "-n", 5)
    assert done.exit_code == 0, done.output
    header, *rows = csv.reader(done.stdout.splitlines())
    assert header == ["series", "id"]
    assert len(rows) == 5
    assert all(int(series) >= 4 and identity == f"wave{series}" for series, identity in rows)


def test_nothing_to_suggest_is_mentioned(pool, encoder, tmp_path, caplog):
    labelled = tmp_path / "labelled.csv"
    labelled.write_text(pool.read_text().replace(",,", ",slow,"))
    assert run("suggest", encoder, labelled).stdout == "series,id\n"
    assert caplog.messages == [f"{labelled}: every series has a label"]


def test_a_fitted_model_suggests_and_other_models_are_refused(pool, encoder, tmp_path):
    X, y = wave_table(20)
    fitted = nutime.NuTimeClassifier(encoder=encoder, pool="cls").fit(X, y).save(tmp_path / "model")
    assert run("suggest", fitted, pool, "-n", 3, "-o", tmp_path / "next.csv").exit_code == 0
    assert len((tmp_path / "next.csv").read_text().splitlines()) == 4
    clusterer = nutime.NuTimeClusterer(2, encoder).fit(X).save(tmp_path / "clusters")
    refused = run("suggest", clusterer, pool)
    assert str(refused.exception).endswith("is a NuTimeClusterer; suggestions need a classifier or an encoder")


def test_the_page_refuses_labels_of_other_series_and_inputs_without_a_place_for_them(pool, encoder, tmp_path):
    (tmp_path / "other.jsonl").write_text("label,a,b\n")
    refused = run("label", pool, "--weights", encoder, "-o", tmp_path / "other.jsonl", "--no-browser")
    assert str(refused.exception).endswith("is not a file of labels; name another one")
    assert "name the file of the labels" in run("label", "-").output
