"""Estimators that must come out the same whoever runs their blocks."""

from __future__ import annotations

from prototag import MCDL, ExemplarMCDL, recommended

ESTIMATORS = {
    "MCDL": lambda: MCDL(230, init_iter=1, max_iter=1, random_state=0),
    "MCDL, published": lambda: MCDL.published(60, init_iter=1, max_iter=1, random_state=0),
    "ExemplarMCDL": lambda: ExemplarMCDL(random_state=0),
    "ExemplarMCDL, fewer": lambda: ExemplarMCDL(80, random_state=0),
    "recommended": lambda: recommended(pilot=200),
    "recommended, out-of-core": lambda: recommended(n_prototypes=150, pilot=200, out_of_core=True),
    "recommended, fewer": lambda: recommended(n_prototypes=80, pilot=200),
}
