"""Reports: self-contained HTML pages, SVG figures, tables in HTML, Markdown and LaTeX.

The package draws arrays, text and pictures, and is independent of the method. A page::

    page = Page("My photos", lead="The trained tags and their accuracy.") page.section("Summary",
    facts([Fact("83%", "of the applied tags are correct")])) page.section("Per tag", table(["Tag",
    Column("Precision", "percent", bar=True)], rows)) page.section("Curves",
    figures([figure(lines([Series("recall", x, y)], title="..."), "...")])) page.section("Pictures",
    picture_sheet([Card("a.jpg", "a.jpg", [Mark("sky", "right")])], Thumbnails()))
    page.write("report.html")

Functions that draw return :class:`Markup`; any other content of a page is text and is escaped.
``standalone(figure)`` returns a figure as an SVG file, ``markdown(columns, rows)`` a Markdown
table and ``latex(columns, rows)`` a LaTeX table.
"""

from prototag.report.charts.bar_charts import bars, histogram
from prototag.report.charts.contributions import shares
from prototag.report.charts.frame import standalone
from prototag.report.charts.line_charts import Series, lines, scatter
from prototag.report.charts.reliability_charts import precision_recall, reliability
from prototag.report.contact_sheet import Card, Mark, Thumbnails, chip, chips, key, picture_sheet
from prototag.report.html import Markup, element
from prototag.report.page import Fact, Page, details, facts, figure, figures, heading, paragraph
from prototag.report.tables import Column, latex, markdown, table

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
    "latex",
    "lines",
    "markdown",
    "paragraph",
    "picture_sheet",
    "precision_recall",
    "reliability",
    "scatter",
    "shares",
    "standalone",
    "table",
]
