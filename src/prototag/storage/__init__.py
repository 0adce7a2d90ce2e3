"""Files that are whole or not there at all.

``atomic`` writes them, ``modelfile`` is the format of models (docs/model-file.md), ``loading``
makes objects of them, ``provenance`` says when and by which versions a result was made.
"""
