"""Knowledge of words: prior scores of tags by their names, learned from public collections."""
