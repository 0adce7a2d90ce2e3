"""Arrays and strings on disk: one safetensors file with a JSON header. Knows no classes, no pickle.

docs/model-file.md specifies the format.
"""

from prototag.modelfile.csr import pack_csr, unpack_csr, unpack_dense, unpack_rows
from prototag.modelfile.dense import expect
from prototag.modelfile.layout import FORMAT, MAX_BYTES, MAX_HEADER_BYTES, VERSION
from prototag.modelfile.reader import read, read_header
from prototag.modelfile.writer import write

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_HEADER_BYTES",
    "VERSION",
    "expect",
    "pack_csr",
    "read",
    "read_header",
    "unpack_csr",
    "unpack_dense",
    "unpack_rows",
    "write",
]
