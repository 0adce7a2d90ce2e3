"""Tags in and out: XMP sidecars, keywords inside files, lists, text files, names of folders.

Reading, for learning::

    found = collect("Pictures")              # .images, .tags, .counts, .notes, .problems
    words = vocabulary(found.tags, min_count=5)   # .names, .counts, .dropped, .merged
    Y = words.matrix(found.tags)             # CSR, one row for each picture

Writing, for one picture; ``plan`` and ``plan_untag`` touch nothing::

    change = plan("photo.jpg", ["animal|cat", "sofa"])   # naming=, replace=, inside=
    if change:                               # False where the sidecar already says so
        print(change.diff())                 # or change.summary(), .added, .removed, .notes
        change = apply(change)               # atomic; what was done
    apply(plan_untag("photo.jpg"))           # tags=, keep=

    change = plan_embed("photo.jpg", ["sofa"])   # the same inside the file itself, a JPEG
    apply_inside(change, keep_original=True)      # its pixels stay, bit for bit
    apply_inside(plan_unembed("photo.jpg"))

    apply(plan_own("photo.jpg", ["sofa"]))   # without marks: the person's own from then on

    read_keywords("photo.jpg")               # .tags (a person's), .added (ours), .rejected, .copied

Whatever fails raises :class:`~prototag.errors.MetadataError`, and nothing is lost.
docs/how-to/metadata.md says what is read and written, and how ours is told from a person's.
"""

from prototag.metadata.embed import apply_inside, has_ours, is_jpeg, plan_embed, plan_unembed
from prototag.metadata.own import plan_own, taken_away
from prototag.metadata.sidecar import Change, apply, plan, plan_untag
from prototag.metadata.sources import KINDS, Collected, collect, read_keywords
from prototag.metadata.tags import Vocabulary, vocabulary
from prototag.metadata.walk import PICTURES
from prototag.metadata.xmp.packet import Keywords

__all__ = [
    "KINDS",
    "PICTURES",
    "Change",
    "Collected",
    "Keywords",
    "Vocabulary",
    "apply",
    "apply_inside",
    "collect",
    "has_ours",
    "is_jpeg",
    "plan",
    "plan_embed",
    "plan_own",
    "plan_unembed",
    "plan_untag",
    "read_keywords",
    "taken_away",
    "vocabulary",
]
