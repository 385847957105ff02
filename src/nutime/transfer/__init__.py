"""From an encoder to answers."""
