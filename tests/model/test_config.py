"""The config: what it accepts, what it refuses and with which message, and its JSON form."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import configs, one_line

from nutime.model.config import NuTimeConfig

FIELDS = [field.name for field in dataclasses.fields(NuTimeConfig)]
POSITIVE = ("window", "length", "channels", "dim", "depth", "heads", "head_dim", "mlp_dim", "scalar_dim")
CHOICES = ("normalization", "scalar_embedding", "scale_weighting")
NUMBERS = ("dropout", "scalar_epsilon")


def refusal(**changes):
    """Return the one line with which a changed default config is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        NuTimeConfig.from_dict({**dataclasses.asdict(NuTimeConfig()), **changes})
    return one_line(caught)


def test_the_default_is_the_papers_model():
    config = NuTimeConfig()
    assert (config.window, config.length, config.dim, config.depth, config.heads) == (16, 512, 128, 6, 8)
    assert (config.mlp_dim, config.dropout, config.scalar_dim, config.scales) == (512, 0.1, 32, 9)
    assert [getattr(config, name) for name in CHOICES] == ["window", "nme", "weighted"]


def test_the_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        NuTimeConfig().window = 8


# ---- JSON -----------------------------------------------------------------------------------------------


@given(configs())
def test_every_config_survives_json(config):
    assert NuTimeConfig.from_json(config.to_json()) == config


@given(configs())
def test_json_is_standard_and_names_every_field(config):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert list(json.loads(config.to_json(), parse_constant=refuse)) == FIELDS


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[]", "3", "null", '"window"'])
def test_what_is_not_a_json_object_is_refused(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        NuTimeConfig.from_json(text)
    one_line(caught)


@given(st.text(max_size=20).filter(lambda name: name not in FIELDS))
def test_an_unknown_field_is_refused(name):
    assert "unknown config field" in refusal(**{name: 1})


def test_an_unknown_field_is_named():
    assert "windows" in refusal(windows=16)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "resolutions"])
def test_a_missing_field_is_refused_by_name(name):
    values = dataclasses.asdict(NuTimeConfig())
    del values[name]
    with pytest.raises(ValueError, match="missing") as caught:
        NuTimeConfig.from_dict(values)
    assert name in one_line(caught)


def test_configs_of_before_distillation_are_of_networks_that_read_three_resolutions():
    values = dataclasses.asdict(NuTimeConfig())
    del values["resolutions"]
    assert NuTimeConfig.from_dict(values).resolutions == 3


@pytest.mark.parametrize("wrong", [0, 2, 4, True, None, "3"])
def test_other_numbers_of_resolutions_are_refused(wrong):
    assert "resolutions must be 1 or 3" in refusal(resolutions=wrong)


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 2.5, 16.0, "16", None, True, [16], math.nan])
@pytest.mark.parametrize("name", [*POSITIVE, "scales"])
def test_what_is_not_a_countable_number_is_refused(name, value):
    message = refusal(**{name: value})
    assert name in message
    assert repr(value) in message


@pytest.mark.parametrize("name", POSITIVE)
def test_zero_is_refused_everywhere_but_for_scales(name):
    assert name in refusal(**{name: 0})


@pytest.mark.parametrize("value", ["windows", "a\nb", "", None, 1, ["window"]])
@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_choice_is_refused_with_the_known_ones(name, value):
    message = refusal(**{name: value})
    assert name in message
    assert repr(value) in message
    assert getattr(NuTimeConfig(), name) in message


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "0.1", None, [0.1]])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_rate_or_epsilon_that_is_no_finite_number_is_refused(name, value):
    message = refusal(**{name: value})
    assert name in message
    assert repr(value) in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 1, "length": 8}, "window must be at least 2"),
        ({"length": 500}, "length 500 is not a multiple of window 16"),
        ({"dim": 127}, "even"),
        ({"scalar_dim": 31}, "even"),
        ({"scales": 4}, "scales must be 0 or an odd number"),
        ({"scales": 47}, "scales"),  # 1e-23 squared is nothing in float32
        ({"scales": 701}, "scales"),  # 1e350 is no float
        ({"dropout": 1.0}, "dropout must be in"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(changes, words):
    assert words in refusal(**changes)


def test_replace_changes_one_field_and_checks_it():
    assert NuTimeConfig().replace(window=32) == NuTimeConfig(window=32)
    with pytest.raises(ValueError, match="window"):
        NuTimeConfig().replace(window=0)


# ---- derived --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scales", "values"),
    [(0, []), (1, [1]), (3, [0.1, 1, 10]), (9, [1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1e3, 1e4])],
)
def test_scales_are_powers_of_ten_centred_on_one(scales, values):
    assert NuTimeConfig(scales=scales).scale_values == pytest.approx(values, rel=1e-15)


@pytest.mark.parametrize(
    ("scalar_embedding", "scales", "embeds"),
    [("nme", 9, True), ("nme", 0, False), ("none", 9, False), ("ple-q", 0, True), ("ple-p", 0, True)],
)
def test_scalars_reach_the_network_unless_dropped_or_without_scales(scalar_embedding, scales, embeds):
    assert NuTimeConfig(scalar_embedding=scalar_embedding, scales=scales).embeds_scalars is embeds
