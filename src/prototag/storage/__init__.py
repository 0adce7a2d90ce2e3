"""Files that are whole or not there at all.

``atomic`` writes them; ``modelfile`` is the format of models (docs/reference/model-file.md).
"""
