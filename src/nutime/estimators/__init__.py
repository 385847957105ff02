"""scikit-learn estimators over an encoder."""
