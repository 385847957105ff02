"""A local web page to look at one's series: their map, neighbours, clusters, anomalies and attention."""
