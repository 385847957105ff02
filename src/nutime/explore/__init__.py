"""Local web pages: one to explore a set of series, one for a recording, one to label series."""
