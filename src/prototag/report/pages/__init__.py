"""The pages that people read: how good an annotator is, and why a picture got its tags.

Everything comes in as plain data, pictures as paths, bytes, PIL images or arrays (``None`` where
there is none)::

    result = evaluate(Y, scores, threshold, tags=names, probabilities=p, images=files)
    page = evaluation_page(
        result,
        pictures=files,  # n sources, in the order of the images
        prototypes=[Prototype(source, "a.jpg", [("sky", 0.9), ("sea", 0.4)], used=31)],
    )
    page.write("report.html")

    page = explanation_page(
        "new.jpg",
        "new.jpg",
        [Explained("sky", 0.91, 0.8, 0.3, [Behind(0.5, Prototype(source, "a.jpg", ["sky"]))], 0.3)],
        similar=[Similar(0.83, Prototype(source, "b.jpg", ["sea"]))],
    )
    page.write("new.html")
"""

from prototag.report.pages.evaluation import evaluation_page
from prototag.report.pages.explanation import Behind, Explained, Similar, explanation_page
from prototag.report.pages.prototypes import Prototype

__all__ = [
    "Behind",
    "Explained",
    "Prototype",
    "Similar",
    "evaluation_page",
    "explanation_page",
]
