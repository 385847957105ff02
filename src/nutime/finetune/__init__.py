"""Training an encoder, or a linear model on top of it, from labelled series."""
