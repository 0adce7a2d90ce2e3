"""JSON Schemas of requests and responses, and the validation of requests."""

from __future__ import annotations

from typing import Any

from prototag.library.saved_searches import MAX_ADDRESS_LENGTH, MAX_NAME_LENGTH
from prototag.library.types import VERDICTS
from prototag.library.write_places import PLACES
from prototag.service.jobs import STATES
from prototag.service.problem_details import bad_request

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
TIME: Schema = {**NUMBER, "description": "Seconds since 1970."}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
MAX_INTEGER = 2**63 - 1  # largest integer of SQLite
INTEGER_ID: Schema = {**COUNT, "maximum": MAX_INTEGER}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 500}
COUNTS: Schema = {"type": "object", "additionalProperties": COUNT}
PICTURE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}
MAX_ITEMS = 1000  # pictures, tags or decisions in one request


def array(of: Schema, most: int | None = None, least: int = 0) -> Schema:
    """Return the schema of an array."""
    limits = {"maxItems": most} if most is not None else {}
    return {"type": "array", "items": of, **limits, **({"minItems": least} if least else {})}


def ref(name: str) -> Schema:
    """Return a reference to one of ``COMPONENTS``."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    if "type" in schema and isinstance(schema["type"], str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def record(*optional: str, **properties: Schema) -> Schema:
    """Return the schema of an object with these members; all but ``optional`` are required."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_TAG_CHOICE: dict[str, Schema] = {
    "precision": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "min_probability": SHARE,
    "top": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
    "vocabulary": array(NAME, MAX_ITEMS, 1),
}
TAG_CHOICE_FIELDS = tuple(_TAG_CHOICE)
PICTURE_DATA: Schema = {
    **TEXT,
    "contentEncoding": "base64",
    "description": "A file as a data URL, or its bytes in base64.",
}
_SOURCE: dict[str, Schema] = {
    "image": PICTURE_DATA,
    "path": {"type": "string", "description": "A file inside an allowed folder."},
}

_WRITE_PLACES: dict[str, Schema] = {
    "jpeg": {"enum": list(PLACES)},
    "raw": {"enum": ["sidecar", "nowhere"]},
    "other": {"enum": ["sidecar", "nowhere"]},
    "iptc": {
        **FLAG,
        "description": "Whether JPEG files without IPTC keywords get them, too; existing ones are "
        "always kept in step.",
    },
}

COMPONENTS: dict[str, Schema] = {
    "Problem": {
        "type": "object",
        "properties": {
            "type": {**TEXT, "description": "Identifier of the kind of problem, for programs."},
            "title": TEXT,
            "status": {"type": "integer"},
            "detail": {
                **TEXT,
                "description": "Message that says what was given, what is allowed and what to do.",
            },
        },
        "required": ["type", "title", "status", "detail"],
    },
    "ScoredTag": record(
        "source", tag=TEXT, probability=SHARE, score=NUMBER, source={"enum": ["rule"]}
    ),
    "Annotation": record(
        "path",
        path=TEXT,
        tags=array(ref("ScoredTag")),
        estimates={
            **array(ref("ScoredTag")),
            "description": "Tags that are more likely right than wrong, below the threshold.",
        },
        suggestions=array(ref("ScoredTag")),
        in_training_set={
            **FLAG,
            "description": "Whether this picture was used for training, so that its tags say "
            "nothing about accuracy.",
        },
        from_cache={**FLAG, "description": "Whether its vector came from the vector cache."},
    ),
    "Failure": record("path", path=TEXT, error=ref("Problem")),
    "Annotations": record(results=array({"anyOf": [ref("Annotation"), ref("Failure")]})),
    "AnnotateRequest": record(*_SOURCE, *_TAG_CHOICE, **_SOURCE, **_TAG_CHOICE),
    "AnnotateManyRequest": record(
        "images",
        "paths",
        *_TAG_CHOICE,
        images=array(PICTURE_DATA, 64),
        paths=array(TEXT, MAX_ITEMS),
        **_TAG_CHOICE,
    ),
    "SimilarRequest": record(
        *_SOURCE,
        "count",
        "by",
        **_SOURCE,
        count={"type": "integer", "minimum": 1, "maximum": 100},
        by={"enum": ["vector", "code"]},
    ),
    "ExplainRequest": record(*_SOURCE, "tags", **_SOURCE, tags=array(NAME, 20, 1)),
    "SimilarTrainingPicture": record(similarity=NUMBER, name=TEXT, tags=array(TEXT)),
    "SimilarTrainingPictures": record(similar=array(ref("SimilarTrainingPicture"))),
    "Explanation": record(
        tags=array(
            record(
                "source",
                tag=TEXT,
                probability=SHARE,
                score=NUMBER,
                source={"enum": ["rule"]},
                threshold=NUMBER,
                reasons=array(record(share=NUMBER, name=TEXT, tags=array(TEXT))),
                rest=NUMBER,
                concepts=array(record(concept=TEXT, score=NUMBER, similarity=SHARE)),
            )
        )
    ),
    "Tag": record(
        name=TEXT,
        pictures={**COUNT, "description": "Pictures that have the tag."},
        accepted=COUNT,
        rejected=COUNT,
        suggestions={**COUNT, "description": "Number of suggestions of the tag."},
        learned=FLAG,
        pictures_needed={
            **COUNT,
            "description": "Pictures that the tag still needs before it is trained; 0 if none.",
        },
        precision=nullable(SHARE),
        recall=nullable(SHARE),
        hidden=FLAG,
    ),
    "Tags": record(tags=array(ref("Tag"))),
    "Curves": record(
        curves=array(
            record(
                tag=TEXT,
                points=array(
                    record(
                        examples={
                            **COUNT,
                            "description": "Pictures that had the tag at that training.",
                        },
                        precision=nullable(
                            {**SHARE, "description": "Null if the tag was not applied."}
                        ),
                        recall=SHARE,
                        model=COUNT,
                        at=TIME,
                    )
                ),
            )
        )
    ),
    "Health": record(
        status={"enum": ["up", "stopping"]},
        version=TEXT,
        has_library=FLAG,
        has_model=FLAG,
        queued={
            **record(cached=COUNT, uncached=COUNT, task=COUNT),
            "description": "Requests in each queue: files to look up in the vector cache (cached), "
            "pictures to embed (uncached), other work (task).",
        },
    ),
    "Suggestion": record(
        picture=PICTURE,
        tag=TEXT,
        probability=SHARE,
        model=COUNT,
        group={
            "type": "integer",
            "description": "Number of the near-duplicate group; -1 if the picture has none.",
        },
    ),
    "Suggestions": record(suggestions=array(ref("Suggestion"))),
    "Picture": record(
        number=PICTURE,
        digest={
            **TEXT,
            "description": "Digest of the pixels, hexadecimal; the same for all copies.",
        },
        files={**array(TEXT), "description": "Paths of its files, existing ones first."},
        tags=array(TEXT),
        accepted=array(TEXT),
        rejected=array(TEXT),
        suggestions=array(ref("Suggestion")),
        complete=FLAG,
        missing=FLAG,
        capture={
            **record(
                taken_at=nullable({**TEXT, "description": "Time of the camera's clock."}),
                camera=nullable(TEXT),
                lens=nullable(TEXT),
                latitude=nullable(NUMBER),
                longitude=nullable(NUMBER),
            ),
            "description": "EXIF: when, with what and where the picture was taken.",
        },
    ),
    "Pictures": record(
        pictures=array(PICTURE),
        count={**COUNT, "description": "Number of all matching pictures."},
        next=nullable({**PICTURE, "description": "Value of `after` for the next page."}),
    ),
    "PictureListRequest": record(pictures=array(PICTURE, MAX_ITEMS, 1)),
    "PictureList": record(rows=array(record(file_name=TEXT, tags=array(TEXT)))),
    "ReviewBatchRequest": record(
        "tag",
        "queue",
        "uncertain",
        "limit",
        "skip",
        "up_to_date",
        up_to_date={**FLAG, "description": "Wait until all decisions affect the order."},
        tag=NAME,
        queue={
            "enum": ["most_informative", "likely_missing", "likely_wrong", "general_words"],
            "description": "Pictures of all tags: the most informative suggestions, likely missing "
            "tags, likely wrong ones, or words of the general vocabulary.",
        },
        uncertain={**FLAG, "description": "Rank by uncertainty, not by probability."},
        limit={"type": "integer", "minimum": 1, "maximum": 200},
        skip=array(PICTURE, MAX_ITEMS),
    ),
    "ReviewBatch": record(
        cells=array(
            record(
                picture=PICTURE,
                tag=TEXT,
                probability=SHARE,
                name=TEXT,
                stack={
                    **array(PICTURE),
                    "description": "The picture and its undecided near-duplicates.",
                },
            )
        ),
        threshold={**SHARE, "description": "Probability from which on a cell is preselected."},
        ranked_by_similarity={
            **FLAG,
            "description": "Whether cells are ranked by similarity only, because no picture was "
            "rejected for the tag.",
        },
        ranked_by_name={
            **FLAG,
            "description": "Whether cells are ranked by the name of the tag, because no picture "
            "has it.",
        },
        prefetch={**array(PICTURE), "description": "Pictures that are likely in the next batch."},
        up_to_date={**FLAG, "description": "Whether all decisions until now affect the order."},
    ),
    "GeneralWords": record(
        available={
            **FLAG,
            "description": "Whether words can rank pictures: the library has vectors of the "
            "default network.",
        },
        words=array(
            record(word=TEXT, pictures={**COUNT, "description": "Undecided pictures of the word."})
        ),
    ),
    "SearchResult": record(
        pictures={**array(PICTURE), "description": "In the order of the search."},
        n_matches={
            **COUNT,
            "description": "How many pictures meet all conditions; the others only look like the "
            "words.",
        },
    ),
    "Phone": record(
        enabled={**FLAG, "description": "Whether phones may connect."},
        address={**TEXT, "description": "Of the service on the network."},
        link={**TEXT, "description": "With the one-time code; empty if it was used or expired."},
        expires_in={**NUMBER, "description": "Seconds until the code expires."},
        phones={**COUNT, "description": "Connected phones."},
    ),
    "ConnectPhoneRequest": record(code={"type": "string", "minLength": 1, "maxLength": 100}),
    "SavedSearch": record(
        name={"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
        address={
            "type": "string",
            "maxLength": MAX_ADDRESS_LENGTH,
            "description": "Query of the page's address, such as text=dog&state=untagged.",
        },
    ),
    "DeleteSearchRequest": record(name=NAME),
    "Searches": record(searches=array(ref("SavedSearch"))),
    "Facets": record(
        pictures={**COUNT, "description": "Pictures within the filter."},
        tags={**COUNTS, "description": "Pictures with each tag, the most frequent first."},
        folders={**COUNTS, "description": "Pictures in each folder, without its subfolders."},
        states={**COUNTS, "description": "Pictures in each state."},
        cameras={**COUNTS, "description": "Pictures of each camera, the most frequent first."},
        lenses={**COUNTS, "description": "Pictures of each lens, the most frequent first."},
        months={**COUNTS, "description": "Pictures of each month of capture, such as 2023-05."},
        undated={**COUNT, "description": "Pictures without a time of capture."},
        places={
            **array(record(latitude=NUMBER, longitude=NUMBER, pictures=COUNT)),
            "description": "Pictures near points, by EXIF.",
        },
    ),
    "Decision": record(
        number=COUNT,
        picture=PICTURE,
        tag=nullable(TEXT),
        verdict=TEXT,
        at=TIME,
        by=TEXT,
        batch=COUNT,
        undone=FLAG,
    ),
    "Decisions": record(decisions=array(ref("Decision"))),
    "DecideRequest": record(
        "by",
        "new",
        decisions=array(
            record(picture=PICTURE, tag=NAME, verdict={"enum": list(VERDICTS)}), MAX_ITEMS, 1
        ),
        by={"type": "string", "minLength": 1, "maxLength": 40},
        new={**FLAG, "description": "Whether rejected tags may be new, like accepted ones."},
    ),
    "CompleteRequest": record(
        "complete", "by", pictures=array(PICTURE, MAX_ITEMS, 1), complete=FLAG, by=NAME
    ),
    "Changed": record(
        changed={**COUNT, "description": "Decisions that changed something."},
        batch={
            **nullable(COUNT),
            "description": "Number of the batch, for undo and redo; null if nothing changed.",
        },
    ),
    "BatchRequest": record(
        batch={**PICTURE, "description": "Number of a batch, from a response or the history."}
    ),
    "BatchChange": record(
        batch=COUNT,
        decisions=array(ref("Decision")),
        overridden={
            **array(ref("Decision")),
            "description": "Decisions of the batch that stay, because a later one overrides them.",
        },
    ),
    "RenameRequest": record(old=NAME, new=NAME),
    "HideRequest": record("hidden", "new", tag=NAME, hidden=FLAG, new=FLAG),
    "Settings": record(
        file_types={**array(TEXT), "description": "Kinds of files that are scanned."},
        all_file_types=array(TEXT),
        sources={
            **array(TEXT),
            "description": "Kinds of files that tags are read from; empty for those that are "
            "found.",
        },
        all_sources=array(TEXT),
        precision={
            **nullable(SHARE),
            "description": "Precision that is wanted of preselected pictures; null for the "
            "default.",
        },
        language={**nullable(TEXT), "description": "Of general words; null for the browser's."},
        all_languages=array(TEXT),
        write_places=ref("WritePlaces"),
    ),
    "WritePlaces": {
        **record(*_WRITE_PLACES, **_WRITE_PLACES),
        "description": "Where tags are written, by kind of file. Lightroom and Bridge read the "
        "tags of JPEG files only inside the file.",
    },
    "SettingsRequest": record(
        "file_types",
        "sources",
        "precision",
        "language",
        "write_places",
        file_types=array(TEXT, 20, 1),
        sources=array(TEXT, 20),
        precision={**SHARE, "description": "0 is the default."},
        language={**TEXT, "description": "Empty is that of the browser."},
        write_places=ref("WritePlaces"),
    ),
    "Model": record(
        number=COUNT,
        trained_at=TIME,
        pictures=COUNT,
        tags=COUNT,
        f1=NUMBER,
        decisions=COUNT,
        current=FLAG,
    ),
    "Models": record(models=array(ref("Model"))),
    "LearnRequest": record("full", full={**FLAG, "description": "Retrain all tags."}),
    "SimilarPicture": record(picture=PICTURE, similarity=NUMBER),
    "SimilarPictures": record(similar=array(ref("SimilarPicture"))),
    "PictureExplanation": record(reasons=array(record(picture=PICTURE, share=NUMBER))),
    "RollBackRequest": record(number=INTEGER_ID),
    "Status": {
        "type": "object",
        "properties": {
            "pictures": COUNT,
            "missing": COUNT,
            "unread": COUNT,
            "tagged": COUNT,
            "tags": COUNT,
            "decisions": COUNT,
            "suggestions": COUNT,
            "unwritten": COUNT,
            "model": nullable(ref("Model")),
            "decisions_since_retrain": COUNT,
            "problems": array(TEXT),
        },
        "required": ["pictures", "tags", "decisions", "suggestions", "model"],
    },
    "SyncPlan": record(
        plan={**TEXT, "description": "Name for POST /sync, valid until the next plan."},
        incoming={**COUNT, "description": "Pictures whose files have other tags than before."},
        rejected={**COUNT, "description": "Tags from ProtoTag that were removed in the files."},
        restored={**COUNT, "description": "Tags that were removed in the files and added again."},
        outgoing={**COUNT, "description": "Sidecars and pictures to write."},
        inside={**COUNT, "description": "Of these, pictures."},
        kept={
            **COUNT,
            "description": "Tags that a person wrote to files and rejected in the library; "
            "they stay.",
        },
        changes=array(
            record(
                image=TEXT,
                file={**TEXT, "description": "The sidecar, or the picture itself."},
                place={"enum": ["sidecar", "file"]},
                added=array(TEXT),
                removed=array(TEXT),
                diff=TEXT,
            )
        ),
        problems=array(TEXT),
    ),
    "SyncRequest": record(plan=TEXT),
    "Writes": record(
        writes=array(
            record(
                number=COUNT,
                written_at=TIME,
                files=COUNT,
                added={**COUNT, "description": "Tags that were added to the files."},
                removed=COUNT,
                undone={**FLAG, "description": "Whether all files were restored."},
            )
        )
    ),
    "UndoWriteRequest": record(number={**PICTURE, "description": "Number of the write."}),
    "Job": record(
        job=COUNT,
        kind=TEXT,
        state={"enum": list(STATES)},
        began=TIME,
        ended=nullable(TIME),
        progress=nullable(
            record(
                stage=TEXT,
                done=COUNT,
                total=nullable(COUNT),
                seconds_left=nullable(NUMBER),
                message=TEXT,
            )
        ),
        result={},
        problem=nullable(ref("Problem")),
    ),
    "Jobs": record(jobs=array(ref("Job"))),
    "PlanSyncRequest": record(
        "pictures",
        pictures={
            **array(PICTURE, MAX_ITEMS, 1),
            "description": "Write to the files of these only; of all pictures if not given.",
        },
    ),
    "Nothing": record(),
    "PhotoPrismRequest": {
        "type": "object",
        "properties": {"id": TEXT, "images": array(TEXT, 64)},
    },
    "PhotoPrismAnswer": record(
        id=TEXT,
        code={"type": "integer"},
        model={"type": "object"},
        result=record(
            labels=array(
                record(
                    name=TEXT,
                    source=TEXT,
                    priority={"type": "integer"},
                    confidence=SHARE,
                    topicality=SHARE,
                    categories=array(TEXT),
                )
            )
        ),
    ),
    "LabelStudioRequest": {"type": "object"},  # its members vary between versions
}

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def check(value: Any, schema: Schema, where: str = "the body") -> None:
    """Validate a value; raise a :class:`Problem` that says what is wrong."""
    if "$ref" in schema:
        schema = COMPONENTS[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        if value not in schema["enum"]:
            raise bad_request(
                f"{where} is {_truncate(value)}: give one of {', '.join(map(str, schema['enum']))}."
            )
        return
    kind = schema.get("type")
    if kind is None:
        return
    wrong = not isinstance(value, _TYPES[kind]) or (kind != "boolean" and isinstance(value, bool))
    if wrong:
        raise bad_request(f"{where} is {_truncate(value)}: give {type_phrase(kind)}.")
    if kind == "object":
        _check_object(value, schema, where)
    elif kind == "array":
        _check_length(len(value), schema, "Items", where, "items")
        for index, item in enumerate(value):
            check(item, schema["items"], f"item {index} of {where}")
    elif kind == "string":
        _check_length(len(value), schema, "Length", where, "characters")
    else:
        _check_range(value, schema, where)


_ARTICLES = {"array": "an", "integer": "an", "object": "an"}


def type_phrase(kind: str) -> str:
    """Return the name of a type with its article."""
    return f"{_ARTICLES.get(kind, 'a')} {kind}"


def _check_object(value: dict[str, Any], schema: Schema, where: str) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise bad_request(
                f"{where} has no {name!r}: it must have {', '.join(schema['required'])}."
            )
    for name, part in value.items():
        if name not in properties:
            if schema.get("additionalProperties", True):
                continue
            allowed = ", ".join(properties) or "nothing"
            raise bad_request(
                f"{where} has {_truncate(name)}, which is unknown: it may have {allowed}."
            )
        check(part, properties[name], f"{name!r} of {where}")


def _check_length(length: int, schema: Schema, what: str, where: str, noun: str) -> None:
    least = schema.get(f"min{what}", 0)
    most = schema.get(f"max{what}")
    if length < least or (most is not None and length > most):
        allowed = f"{least} to {most:,}" if most is not None else f"{least} or more"
        raise bad_request(f"{where} has {length:,} {noun}: give {allowed}.")


def _check_range(value: float, schema: Schema, where: str) -> None:
    low = schema.get("minimum")
    high = schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    too_low = (low is not None and value < low) or (above is not None and value <= above)
    if too_low or (high is not None and value > high) or value != value:
        least = f"above {above}" if above is not None else f"from {low}"
        most = f" to {high}" if high is not None else " on"
        raise bad_request(f"{where} is {value}: give a number {least}{most}.")


def _truncate(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
