"""Knowledge of words, judged on collections that had no part in it."""
