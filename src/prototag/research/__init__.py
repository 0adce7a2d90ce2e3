"""For research: rivals in one registry, data sets, and the experiments of the paper."""
