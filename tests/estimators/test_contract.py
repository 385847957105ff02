"""What holds for all four estimators: scikit-learn's contract, the inputs they take, the mistakes they refuse."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.regressor import NuTimeRegressor
from waves import assert_same_outputs, outputs, refusal, wave_table, waves


def test_all_checks_of_scikit_learn_pass_without_exception(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings on purpose
        results = check_estimator(estimator, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] != "passed"} <= {
        "check_array_api_input"  # skipped unless SCIPY_ARRAY_API is set
    }


# ---- what is accepted ---------------------------------------------------------------------------------


def three_channels_with_gaps():
    series, y = waves(channels=3)
    for index, values in enumerate(series):
        values[index % 3, 5:9] = np.nan
        values[:, -2:] = np.nan
    return series, y


def frame():
    table, y = wave_table()
    table[3, 7] = np.nan
    return pd.DataFrame(table), y


def cube():
    table, y = wave_table()
    return np.stack([table, table[:, ::-1], table**2], axis=1), y


@pytest.mark.parametrize(
    "data",
    [waves, wave_table, three_channels_with_gaps, frame, cube],
    ids=["unequal-lengths", "table", "unequal-lengths-nan-3-channels", "frame-with-nan", "cube"],
)
def test_every_form_of_series_gives_one_finite_output_per_series(estimator, data):
    X, y = data()
    estimator.fit(X, y)
    for name, answer in outputs(estimator, X).items():
        assert len(answer) == len(y), name
        assert np.isfinite(answer).all(), name


def test_a_nested_list_is_a_table_with_none_as_a_missing_value(estimator):
    table, y = wave_table()
    nested = table.tolist()
    nested[0][5] = None
    table[0, 5] = np.nan
    estimator.fit(nested, y)
    assert estimator.n_features_in_ == table.shape[1]
    assert_same_outputs(outputs(estimator, nested), outputs(estimator, table))


def test_a_frame_whose_cells_are_series_is_a_list_of_series(estimator):
    series, y = waves(channels=2)
    nested = pd.DataFrame([[pd.Series(channel) for channel in values] for values in series], columns=["x", "y"])
    estimator.fit(nested, y)
    assert not hasattr(estimator, "n_features_in_")
    assert_same_outputs(outputs(estimator, nested), outputs(estimator, series))


def test_a_table_of_arrow_is_a_table_and_its_label_no_value(estimator):
    table, y = wave_table()
    arrow = pa.table({f"t{point}": column for point, column in enumerate(table.T)})
    estimator.fit(arrow, y)
    assert estimator.n_features_in_ == table.shape[1]
    assert_same_outputs(outputs(estimator, arrow), outputs(estimator, table))
    with pytest.raises(ValueError, match="column 'label' holds labels"):
        estimator.fit(arrow.append_column("label", [np.arange(len(table))]), y)


def test_an_array_of_series_is_a_list_of_series(estimator):
    series, y = waves()
    array = np.fromiter((values[0] for values in series), object, len(series))
    estimator.fit(array, y)
    assert not hasattr(estimator, "n_features_in_")
    assert_same_outputs(outputs(estimator, array), outputs(estimator, series))


def test_what_a_masked_table_hides_is_missing(estimator):
    table, y = wave_table()
    masked = np.ma.masked_where(np.arange(table.size).reshape(table.shape) % 11 == 5, table)
    estimator.fit(masked, y)
    assert_same_outputs(outputs(estimator, masked), outputs(estimator, masked.filled(np.nan)))


def test_a_tensor_is_a_table(estimator):
    table, y = wave_table()
    tensor = torch.from_numpy(table).requires_grad_()
    estimator.fit(tensor, y)
    assert_same_outputs(outputs(estimator, tensor), outputs(estimator, table))


def test_padding_with_nan_changes_nothing(estimator):
    series, y = waves()
    padded = np.full((len(series), 80), np.nan)
    for row, values in zip(padded, series, strict=True):
        row[: values.shape[1]] = values[0]
    estimator.fit(series, y)
    assert_same_outputs(outputs(estimator, series), outputs(estimator, padded))


def test_fitted_on_a_table_it_takes_series_of_any_length_as_a_list(estimator):
    estimator.fit(*wave_table(length=40))
    series, _ = waves()
    assert all(len(answer) == len(series) for answer in outputs(estimator, series).values())


def test_fitted_on_a_cube_it_takes_another_length(estimator):
    table, y = wave_table(length=40)
    estimator.fit(table[:, None], y)
    assert all(len(answer) == len(y) for answer in outputs(estimator, table[:, None, :31]).values())


def test_only_a_table_sets_the_number_of_features(estimator):
    estimator.fit(*wave_table(length=40))
    assert estimator.n_features_in_ == 40
    estimator.fit(*waves())
    assert not hasattr(estimator, "n_features_in_")


def test_an_encoder_may_be_given_as_a_folder_or_as_itself(estimator, encoder):
    X, y = waves()
    by_folder = outputs(estimator.fit(X, y), X)
    itself = clone(estimator).set_params(encoder=NuTime.from_pretrained(encoder))
    assert_same_outputs(by_folder, outputs(itself.fit(X, y), X))


def test_the_device_is_the_best_there_is_unless_an_encoder_object_has_its_own(estimator, encoder):
    best = "cuda" if torch.cuda.is_available() else "cpu"
    assert estimator.fit(*waves()).encoder_.device.type == best
    own = NuTime.from_pretrained(encoder)
    assert estimator.set_params(encoder=own).fit(*waves()).encoder_ is own
    assert estimator.set_params(device="cpu").fit(*waves()).encoder_.device.type == "cpu"


# ---- what it leaves alone -----------------------------------------------------------------------------


def test_fit_leaves_the_encoder_as_it_was(estimator, encoder):
    model = NuTime.from_pretrained(encoder)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    estimator.set_params(encoder=model).fit(*waves())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_same_seed_gives_the_same_answers(estimator):
    X, y = waves()
    first, second = clone(estimator).fit(X, y), clone(estimator).fit(X, y)
    assert_same_outputs(outputs(first, X), outputs(second, X))


def test_pickling_changes_nothing(estimator):
    X, y = three_channels_with_gaps()
    estimator.fit(X, y)
    assert_same_outputs(outputs(estimator, X), outputs(pickle.loads(pickle.dumps(estimator)), X))


@pytest.mark.filterwarnings("error")
def test_an_estimator_mapped_from_a_file_of_joblib_has_the_same_outputs(estimator, tmp_path):
    X, y = waves()
    joblib.dump(estimator.fit(X, y), tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_same_outputs(outputs(estimator, X), outputs(mapped, X))


# ---- what is refused ----------------------------------------------------------------------------------


def test_a_table_of_another_width_is_refused_and_the_way_out_is_named(estimator):
    estimator.fit(*wave_table(length=40))
    message = refusal(outputs, estimator, wave_table(length=41)[0])
    assert message.startswith(f"X has 41 features, but {type(estimator).__name__} is expecting 40 features")
    assert "as a list of arrays" in message


def test_another_number_of_channels_is_refused(estimator):
    estimator.fit(*waves(channels=3))
    message = refusal(outputs, estimator, waves(channels=2)[0])
    assert message == f"X has 2 channel(s), but {type(estimator).__name__} was fitted with 3"


def test_a_single_series_outside_a_list_is_refused(estimator):
    message = refusal(estimator.fit, np.ones(5), [0])
    assert message.startswith("got 1 dimension(s)")
    assert "X.reshape(1, -1)" in message


def test_what_is_no_data_is_named_by_its_type(estimator):
    assert refusal(estimator.fit, iter([np.ones(5)]), [0]).startswith("got list_iterator: expected an array")


@pytest.mark.parametrize("X", [[], [[]], np.empty((0, 4)), np.empty((4, 0)), np.ones((2, 2, 2, 2)), ["a", "b"]])
def test_what_is_no_series_is_refused(estimator, X):
    refusal(estimator.fit, X, [0, 1])


@pytest.mark.parametrize("make", [NuTimeClassifier, NuTimeRegressor])
def test_labels_with_the_ids_of_the_series_in_another_order_are_refused(make, encoder):
    series, y = waves(8)
    ids = [f"m{index}" for index in (3, 0, 2, 1, 7, 6, 5, 4)]
    X = pd.concat([pd.DataFrame({"a": values[0]}) for values in series], keys=ids, names=["id", "time"])
    labels, estimator = pd.Series(y, ids), make(encoder=encoder)
    expected = estimator.fit(X, labels).predict(X)
    assert estimator.score(X, labels.reset_index(drop=True)) == estimator.score(X, labels)
    for call in (estimator.score, estimator.fit):
        for given in (labels.sort_index(), labels.sort_index().to_frame()):
            message = refusal(call, X, given)
            assert message.startswith("y has the ids of X in another order: the series are 'm3', 'm0',")
        message = refusal(call, X, y, sample_weight=pd.Series(1.0, sorted(ids)))
        assert message.startswith("sample_weight has the ids of X in another order")
    again = estimator.fit(X, labels.reset_index(drop=True)).predict(X)  # any other index means nothing
    np.testing.assert_array_equal(again, expected)


def test_nothing_is_answered_before_fit(estimator):
    with pytest.raises(NotFittedError):
        outputs(estimator, waves()[0])


def test_nothing_is_answered_after_a_fit_that_failed(estimator):
    X, y = waves()
    refusal(estimator.fit(X, y).set_params(pool="max").fit, X, y)
    with pytest.raises(NotFittedError):
        outputs(estimator, X)


def test_an_unfitted_estimator_is_not_saved(estimator, tmp_path):
    with pytest.raises(NotFittedError):
        estimator.save(tmp_path / "model")


def test_an_unknown_encoder_is_refused(estimator):
    assert refusal(estimator.set_params(encoder="nowhere").fit, *waves()).startswith("no weights 'nowhere'")


def test_something_else_than_an_encoder_is_refused(estimator):
    message = refusal(estimator.set_params(encoder=None).fit, *waves())
    assert message == "encoder must be a shipped name, a folder or a NuTime, got None"


@pytest.mark.parametrize("device", ["mps", "meta", "gpu", 3])
def test_a_device_that_cannot_compute_is_refused(estimator, device):
    assert refusal(estimator.set_params(device=device).fit, *waves()).startswith(f"device {device} is not ")


def test_an_unknown_pool_is_refused(estimator):
    assert "pool must be" in refusal(estimator.set_params(pool="max").fit, *waves())
