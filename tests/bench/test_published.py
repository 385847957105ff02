import numpy as np
import pytest

from nutime.bench import published
from nutime.data.archives import ARCHIVE, find_set, sublist

SUBLISTS = {
    "ucr112_supervised": "ucr112",
    "ucr125_selfsupervised": "ucr125",
    "uea26_supervised": "uea26",
    "uea29_selfsupervised": "uea29",
    "fewshot41": "fewshot41",
}
OTHERS = ("ucr_default_split", "uea_default_split")
BY_METHOD = [name for name in published._sources()["tables"] if name not in (*SUBLISTS, *OTHERS)]


@pytest.mark.parametrize(("table", "members"), SUBLISTS.items())
def test_every_row_is_matched_to_a_set_of_the_benchmark(table, members):
    for column in published.columns(table).values():
        assert set(column) == set(sublist(members))


@pytest.mark.parametrize("table", SUBLISTS)
def test_columns_have_the_average_that_is_printed_below_them(table):
    printed = published._rows(table)[-1]
    assert printed["Dataset"] == "Average"
    for method, column in published.columns(table).items():
        assert np.mean(list(column.values())) == pytest.approx(float(printed[method]), abs=0.001)


@pytest.mark.parametrize(
    ("table", "members", "method", "percent"),
    [
        ("ucr_default_split", "ucr112", "HC2", 87.64),
        ("ucr_default_split", "ucr112", "MR-Hydra", 86.80),
        ("uea_default_split", "uea26", "HC2", 74.7),
    ],
)
def test_results_on_default_splits_have_their_published_means(table, members, method, percent):
    column = published.columns(table)[method]
    mean = np.mean([column[name] for name in sublist(members)])
    assert 100 * mean == pytest.approx(percent, abs=0.05)


def test_a_name_that_two_archives_share_is_the_one_of_the_tables_archive():
    assert published.column("uea26_supervised")["uea/Epilepsy"] == 0.894
    assert "tfc/Epilepsy" not in published.column("uea26_supervised")


def test_a_misprinted_name_is_resolved():
    assert published.column("fewshot41")["DistalPhalanxOutlineCorrect"] == 0.643


def test_a_column_is_a_copy():
    published.column("fewshot41").clear()
    assert len(published.column("fewshot41")) == 40


@pytest.mark.parametrize("table", BY_METHOD)
def test_shares_are_shares_and_name_known_sets(table):
    for where, methods in published.scores(table).items():
        assert where in ("finetuned", "scratch", "ucr125", "uea29") or find_set(where).key in ARCHIVE
        for scores in methods.values():
            assert all(0 < value.mean <= 1 for name, value in scores.items() if name != "rank")


def test_percent_and_deviation_are_read():
    nutime = published.scores("ssl_univariate")["FD-B"]["NuTime"]
    assert nutime["accuracy"].mean == pytest.approx(0.9286)
    assert nutime["accuracy"].std == pytest.approx(0.0204)
    assert published.scores("ssl_univariate")["FD-B"]["SimMTM"]["macro_f1"].std is None


def test_what_is_not_published_is_absent():
    assert "TF-C" not in published.scores("ssl_univariate")["ucr125"]
    assert "IN + instance mean/std tokens" not in published.scores("ablation_encoding")["scratch"]


def test_every_protocol_refers_to_tables_that_exist_and_every_table_to_its_place_in_the_paper():
    mapped = [
        *published.PER_SET.values(),
        *published.BY_METHOD.values(),
        *published.ABLATIONS.values(),
    ]
    assert {table for tables in mapped for table in tables} == {*SUBLISTS, *BY_METHOD}
    assert set(published.OTHER_METHODS.values()) == set(OTHERS)
    assert all(published.info(table).where for table in (*SUBLISTS, *BY_METHOD, *OTHERS))
    assert "openreview.net" in published.citation()


def test_the_tables_travel_with_the_package():
    files = {entry.name for entry in published._FOLDER.iterdir()}
    assert files == {"sources.json", *(f"{table}.csv" for table in (*SUBLISTS, *BY_METHOD, *OTHERS))}
    assert all(len(row) == len(published._rows(table)[0]) for table in SUBLISTS for row in published._rows(table))
