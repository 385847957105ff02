"""Small files for the tests of the readers, and what the readers make of them."""

import pytest

from nutime.data.formats.read import FormatError, read_records


def write(path, content):
    """Write text or bytes and return the path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def values_of(path, **arguments):
    return [record.values.tolist() for record in read_records(path, **arguments)]


def refusal(path, **arguments):
    """Return the reason a file is refused, without the path that every message begins with."""
    with pytest.raises(FormatError) as caught:
        list(read_records(path, **arguments))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}:")
    return message.removeprefix(f"{path}:")
