"""Reports: pages in one file, figures as SVG, tables in HTML and Markdown.

Knows arrays, words and pictures, and nothing of the method. A page::

    page = Page("My photos", lead="What was learned, and how well.")
    page.section("In short", facts([Fact("83 %", "of the tags it gives are right")]))
    page.section("Per tag", table(["Tag", Column("Precision", "percent", bar=True)], rows))
    page.section("Curves", figures([figure(lines([Series("recall", x, y)], title="..."), "...")]))
    page.section("Pictures", sheet([Card("a.jpg", "a.jpg", [Mark("sky", "right")])], Thumbnails()))
    page.write("report.html")

Functions that draw give :class:`Markup`; everything else that is put into a page is text, and
escaped. ``standalone(figure)`` is a figure as a file of its own, ``markdown(columns, rows)`` a
table for documents.
"""

from prototag.report.charts.bar_charts import bars, histogram
from prototag.report.charts.contributions import shares
from prototag.report.charts.frame import standalone
from prototag.report.charts.line_charts import Series, lines, scatter
from prototag.report.charts.reliability_charts import precision_recall, reliability
from prototag.report.contact_sheet import Card, Mark, Thumbnails, chip, chips, key, sheet
from prototag.report.html import Markup, element
from prototag.report.page import Fact, Page, details, facts, figure, figures, heading, paragraph
from prototag.report.tables import Column, markdown, table

__all__ = [
    "Card",
    "Column",
    "Fact",
    "Mark",
    "Markup",
    "Page",
    "Series",
    "Thumbnails",
    "bars",
    "chip",
    "chips",
    "details",
    "element",
    "facts",
    "figure",
    "figures",
    "heading",
    "histogram",
    "key",
    "lines",
    "markdown",
    "paragraph",
    "precision_recall",
    "reliability",
    "scatter",
    "shares",
    "sheet",
    "standalone",
    "table",
]
