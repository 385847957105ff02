"""Long recordings that nobody has cut: where they change, and where they are unlike themselves."""
