"""Report pages: evaluation of an annotator, and explanation of the tags of a picture.

They are given what the annotator answers (:mod:`prototag.annotator.types`) and pictures as paths,
bytes, PIL images or arrays (``None`` where there is none)::

    found = assess(annotator, files, tags)
    page = evaluation_page(found.result, pictures=found.pictures, prototypes=found.prototypes)
    page.write("report.html")

    page = explanation_page(
        "new.jpg", "new.jpg", annotator.explain("new.jpg"), similar=annotator.similar("new.jpg")
    )
    page.write("new.html")
"""

from prototag.report.pages.evaluation import evaluation_page
from prototag.report.pages.explanation import explanation_page

__all__ = ["evaluation_page", "explanation_page"]
