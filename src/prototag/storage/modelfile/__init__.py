"""Model files: arrays in the safetensors format with a JSON header, without classes or pickle.

docs/reference/model-file.md specifies the format.
"""

from prototag.storage.modelfile.layout import FORMAT, MAX_BYTES, MAX_HEADER_BYTES, VERSION
from prototag.storage.modelfile.reader import (
    ModelFile,
    expect_array,
    expect_count,
    expect_number,
    expect_numbers,
    expect_text,
    open_model_file,
    read,
    read_header,
    unpack_csr,
    unpack_rows,
)
from prototag.storage.modelfile.writer import pack_csr, provenance, write

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_HEADER_BYTES",
    "VERSION",
    "ModelFile",
    "expect_array",
    "expect_count",
    "expect_number",
    "expect_numbers",
    "expect_text",
    "open_model_file",
    "pack_csr",
    "provenance",
    "read",
    "read_header",
    "unpack_csr",
    "unpack_rows",
    "write",
]
