"""Readers of files, one module per family of formats."""
