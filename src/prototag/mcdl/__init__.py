"""The paper's Algorithm 1 (:class:`MCDL`) and its leakage-free variant (:class:`ExemplarMCDL`)."""
