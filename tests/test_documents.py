import pytest

from nutime.documents import message_of


@pytest.mark.parametrize(
    ("error", "message"), [(ValueError("two\n  lines"), "two lines"), (RuntimeError(), "RuntimeError")]
)
def test_a_message_is_one_line_and_never_empty(error, message):
    assert message_of(error) == message
