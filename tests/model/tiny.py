"""Networks small enough to build by the hundred, and any config an ablation may need."""

from hypothesis import strategies as st

from nutime.model.config import NuTimeConfig

TINY = NuTimeConfig(window=4, length=32, dim=16, depth=2, heads=2, head_dim=8, mlp_dim=32, scalar_dim=4)

NORMALIZATIONS = ("window", "zscore", "instance", "instance+tokens", "identity")
SCALAR_EMBEDDINGS = ("nme", "ple-q", "ple-t", "ple-p", "none")
WEIGHTINGS = ("weighted", "plain")
SCALES = (0, 1, 3, 5, 7, 9)
WIDTHS = (4, 8, 16, 32, 64, 128)


def one_line(caught):
    """Return the message of a caught error, which must be a single line."""
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


@st.composite
def configs(draw, small=False):
    """Draw a valid config; a small one builds in milliseconds."""
    width = st.integers(1, 8 if small else 1024)
    window = draw(st.sampled_from(WIDTHS) if small else st.integers(2, 512))
    return NuTimeConfig(
        window=window,
        length=window * draw(st.integers(1, 4 if small else 1000)),
        channels=draw(st.sampled_from((1, 3)) if small else width),
        dim=2 * draw(width),
        depth=draw(st.integers(1, 2 if small else 64)),
        heads=draw(st.integers(1, 3 if small else 64)),
        head_dim=draw(st.sampled_from((16, 64)) if small else width),
        mlp_dim=draw(width),
        dropout=draw(st.floats(0, 0.99)),
        normalization=draw(st.sampled_from(NORMALIZATIONS)),
        scalar_embedding=draw(st.sampled_from(SCALAR_EMBEDDINGS)),
        scalar_dim=draw(st.sampled_from(WIDTHS)) if small else 2 * draw(width),
        scales=draw(st.sampled_from(SCALES)),
        scale_weighting=draw(st.sampled_from(WEIGHTINGS)),
        scalar_epsilon=draw(st.sampled_from((0.0, 1e-5)) if small else st.floats(0, 1e-2)),
    )
