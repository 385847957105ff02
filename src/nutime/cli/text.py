"""Text from files on a terminal."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Return a text whose control characters are visible: a label must not send commands to the terminal."""
    return text.translate(_CONTROLS)
