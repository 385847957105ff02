"""Pretraining corpora: on disk, built from files, or synthetic."""
