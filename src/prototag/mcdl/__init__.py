"""The paper's method (Algorithm 1, :class:`MCDL`) and its repaired core (:class:`ExemplarMCDL`)."""
