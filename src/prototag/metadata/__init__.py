"""Tags in and out: XMP sidecars, keywords inside files, lists, text files, names of folders.

Reading, for learning::

    # .images, .tags, .counts, .notes, .problems
    found = collect("Pictures")
    # .names, .counts, .dropped, .merged
    words = vocabulary(found.tags, min_count=5)
    # CSR, one row for each picture
    Y = words.matrix(found.tags)

Writing, for one picture; ``plan`` and ``plan_untag`` touch nothing::

    # naming=, replace=, inside=
    change = plan("photo.jpg", ["animal|cat", "sofa"])
    if change:  # False where the sidecar already says so
        print(change.diff())  # or .summary(), .added, .removed, .notes
        change = apply(change)  # atomic; what was done
    apply(plan_untag("photo.jpg"))  # tags=, keep=

    # the same inside the file itself, a JPEG: its pixels stay, bit for bit
    change = plan_embed("photo.jpg", ["sofa"])
    apply_inside(change, keep_original=True)
    apply_inside(plan_unembed("photo.jpg"))

    # without marks: the person's own from then on
    apply(plan_own("photo.jpg", ["sofa"]))

    # .tags (a person's), .added (ours), .rejected, .copied
    read_keywords("photo.jpg")

Whatever fails raises :class:`~prototag.errors.MetadataError`, and nothing is lost.
docs/guide/writing-tags.md says what is read and written, and how ours is told from a person's.
"""

from prototag.metadata.accepted_tags import plan_own, removed_tags
from prototag.metadata.collect_tags import KINDS, Collected, collect, read_keywords
from prototag.metadata.find_files import PICTURES
from prototag.metadata.jpeg_writer import (
    apply_inside,
    has_added_tags,
    is_jpeg,
    plan_embed,
    plan_unembed,
)
from prototag.metadata.sidecar import Change, apply, plan, plan_untag
from prototag.metadata.tag_names import Vocabulary, vocabulary
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
    "has_added_tags",
    "is_jpeg",
    "plan",
    "plan_embed",
    "plan_own",
    "plan_unembed",
    "plan_untag",
    "read_keywords",
    "removed_tags",
    "vocabulary",
]
