"""Streams of series of any size: read in chunks, given to a model, written chunk by chunk."""
