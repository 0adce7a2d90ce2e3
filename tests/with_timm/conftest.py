"""timm beside a CPU-only torch: torchvision's own wheel lacks its operators there.

Two names are enough for the import; no test calls them.
"""

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("timm") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor boxes, Tensor scores, float overlap) -> Tensor")

    @pytest.fixture(autouse=True)
    def _same_random_weights() -> None:
        torch.manual_seed(0)
