"""Protocols, published results, statistics and reports."""
