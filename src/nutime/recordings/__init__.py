"""Long, unsegmented recordings: change points, anomalies, labelled intervals and similar stretches."""
