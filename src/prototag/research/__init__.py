"""Research code: baselines and their registry, data sets, and the experiments of the paper."""
