"""A local web page about a set of series: map, neighbours, clusters, anomalies, contributions and attention."""
