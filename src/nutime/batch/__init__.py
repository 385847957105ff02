"""Batch work over Parquet data sets of any size, on this machine or on several."""
