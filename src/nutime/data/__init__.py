"""From anything to series, from series to batches."""
