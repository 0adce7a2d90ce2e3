"""Learning beyond memory: time and memory of each stage, and quality as images become more."""
