"""The network of the paper's Section 3, in PyTorch; it knows nothing of training or files.

* Section 3.2, architecture: ``windows``, ``tokens``, ``transformer`` and ``network``;
* Section 3.3, numerically multi-scaled embedding: ``scalars``;
* Section 3.4, multivariate series: the channel projection of ``tokens``;
* the paper's choices and ablations: ``config``.

Beyond the paper: how a series becomes a vector (``reading``), features computed beside the network's
(``convolutions``, ``quantiles``), and imputation and forecasting (``decoder``, ``context``). For speed and
reproducible dropout: ``attention``, ``short_attention``, ``noise``, ``drop_kernel`` and ``hashing``.
"""
