"""Files of the package: atomic writes, model files, rows in ``.npy`` files, SQLite lock protection.

docs/reference/model-file.md specifies the model file format.
"""
