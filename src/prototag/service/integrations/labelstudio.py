"""Machine-learning backend for Label Studio: health, setup, predict, and its webhooks.

Label Studio's model URL is ``http://127.0.0.1:PORT/label-studio``. Pictures come as data URLs, from
the allowed folders (its local files), or from Label Studio if it runs on this computer or on an
allowed host.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit
from xml.etree import ElementTree

from prototag.errors import ImageError, InputError
from prototag.library.types import ACCEPTED, CLEARED, REJECTED, PictureView
from prototag.metadata.tag_names import key, leaf
from prototag.service.integrations.http_client import fetch, is_allowed
from prototag.service.integrations.labelstudio_state import Home, Memory, name_of
from prototag.service.jobs import DONE, RUNNING
from prototag.service.problem_details import Problem, bad_request, from_error, not_found
from prototag.service.routes import annotate, jobs
from prototag.service.routes.operation import Call, Operation
from prototag.service.state import Service

if TYPE_CHECKING:
    from prototag.library.library import Library

PREFIX = "/label-studio"
BY = "label-studio"
MAX_CONFIG = 1 << 20  # characters
MAX_TASKS = 256
MAX_ANNOTATIONS = 1000  # in one webhook
NO_MODEL = "prototag, no model yet"


class Config(NamedTuple):
    """The parts of a labelling configuration that predictions need."""

    control: str  # name of <Choices>
    image: str  # name of <Image>
    field: str  # of a task's data that holds the image
    choices: list[str]
    single: bool


def parse(text: Any) -> Config:
    """Parse a configuration: the first choices of an image."""
    if not isinstance(text, str) or len(text) > MAX_CONFIG or "<!" in text.replace("<!--", ""):
        raise bad_request("the labelling configuration is missing, too long, or declares entities.")
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise bad_request(f"the labelling configuration is not valid XML: {error}.") from None
    images = {one.get("name"): one.get("value", "") for one in tree.iter("Image")}
    for control in tree.iter("Choices"):
        name = control.get("name")
        target = control.get("toName")
        if name and target in images and images[target].startswith("$"):
            choices = [c.get("value", "") for c in control.iter("Choice")]
            single = control.get("choice", "single").startswith("single")
            return Config(name, str(target), images[target][1:], choices, single)
    raise bad_request(
        "the labelling configuration has no <Choices> of an <Image value='$...'>: add one."
    )


def memory(service: Service) -> Memory:
    """Return the state of the service, created when it is first needed."""
    state: Memory | None = service.__dict__.get("label_studio")
    if state is None:
        created = Memory(service.library if service.has_library else None)
        state = service.__dict__.setdefault("label_studio", created)
    return state


async def health(_: Call) -> Any:
    return {"status": "UP", "model_class": "prototag"}


async def setup(call: Call) -> Any:
    if call.body.get("schema"):
        parse(call.body["schema"])
    hostname, token = (str(call.body.get(k) or "") for k in ("hostname", "access_token"))
    if is_allowed(hostname, call.service.fetch):
        kept = await call.in_thread(memory, call.service)
        project = str(call.body.get("project", ""))
        await call.in_thread(kept.keep_home, project, Home(hostname, token))
    return {"model_version": await call.in_thread(version, call.service)}


def version(service: Service, used: bool = False) -> str:
    """Return the model version, by which Label Studio knows outdated predictions.

    The version of a library changes with each decision. Label Studio waits three seconds for it, so
    the model is not loaded; with ``used`` it is the version of the loaded annotator.
    """
    if not service.has_library:
        header = getattr(service.annotator, "header", {})
        return f"prototag {header.get('provenance', {}).get('created', '')}".strip()
    model, changes = service.version(used)
    return NO_MODEL if model is None else f"prototag {model}.{changes}"


async def versions(call: Call) -> Any:
    return {"versions": [await call.in_thread(version, call.service)]}


async def predict(call: Call) -> Any:
    tasks = call.body.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > MAX_TASKS:
        raise bad_request(f"'tasks' is not a list of at most {MAX_TASKS}: send fewer at a time.")
    config = parse(call.body.get("label_config"))
    home = (await call.in_thread(memory, call.service)).home(str(call.body.get("project")))
    await call.service.ready()  # refuses if there is no model
    model_version = await call.in_thread(version, call.service, True)
    slots = asyncio.Semaphore(annotate.MAX_QUEUED_PER_REQUEST)

    async def predict_one(task: Any) -> dict[str, Any]:
        try:
            async with slots:
                inference = await call.service.pool.infer(await _picture(call, task, config, home))
        except Exception as error:
            problem = from_error(error)
            if problem.status in (429, 503):
                raise problem from None
            return {"result": [], "score": 0.0, "error": problem.detail}
        return _prediction(
            inference, config, await call.in_thread(_library_view, call.service, inference)
        )

    predictions = await asyncio.gather(*(predict_one(task) for task in tasks))
    return {"results": [{"model_version": model_version, **one} for one in predictions]}


def _library_view(service: Service, inference: Any) -> PictureView | None:
    """Return the tags and decisions of a picture, if the library has it."""
    if not service.has_library:
        return None
    try:
        return service.library.picture(inference.digest.hex())
    except InputError:
        return None


def _prediction(inference: Any, config: Config, view: PictureView | None) -> dict[str, Any]:
    """Return a prediction: labels of the library first, then tags of the model."""
    choices = {key(choice): choice for choice in config.choices}

    def choice_of(name: str) -> str | None:
        return choices.get(key(name)) or choices.get(key(leaf(name)))

    probabilities: dict[str, float] = {}
    rejected: set[str | None] = set()
    if view is not None:
        probabilities = {choice: 1.0 for name in view.tags if (choice := choice_of(name))}
        rejected = {choice_of(name) for name in view.rejected}
    if view is None or not view.complete:
        for tag in annotate.annotation_of(inference, {}).tags:  # by descending probability
            choice = choice_of(tag.name)
            if choice is not None and choice not in rejected:
                probabilities.setdefault(choice, tag.probability)
    if config.single:
        probabilities = dict(list(probabilities.items())[:1])
    if not probabilities:
        return {"result": [], "score": 0.0}
    score = round(sum(probabilities.values()) / len(probabilities), 4)
    result = {
        "from_name": config.control,
        "to_name": config.image,
        "type": "choices",
        "value": {"choices": list(probabilities)},
        "score": score,
    }
    return {"result": [result], "score": score}


async def _picture(call: Call, task: Any, config: Config, home: Home | None) -> bytes | Path:
    """Return the picture of a task, from its data, an allowed folder or an allowed host."""
    data = task.get("data") if isinstance(task, dict) else None
    given = data.get(config.field) if isinstance(data, dict) else None
    if not isinstance(given, str) or not given:
        raise bad_request(f"a task has no text in its field {config.field!r}.")
    if given.startswith("data:"):
        return await annotate.decoded(call, given)
    parts = urlsplit(given)
    if parts.path.endswith("/data/local-files/"):
        named = parse_qs(parts.query).get("d", [""])[0]
        return call.service.roots.resolve(named)
    if not parts.scheme and not parts.path.startswith("/data/"):
        return call.service.roots.resolve(given)
    if home is None and not parts.scheme:
        raise ImageError(
            "is stored at Label Studio, whose address is unknown or not allowed: save the model in "
            "its settings again, or start the service with --fetch HOST"
        )
    base = home.hostname if home else ""
    url = urljoin(base.rstrip("/") + "/", given)
    # Only Label Studio itself gets its token.
    own = home is not None and urlsplit(url)[:2] == urlsplit(base)[:2]
    headers = {"Authorization": f"Token {home.token}"} if home and own and home.token else {}
    max_bytes = call.service.body_reader.limits.picture
    return await call.in_thread(fetch, url, call.service.fetch, headers, max_bytes)


async def webhook(call: Call) -> Any:
    action = call.body.get("action")
    if action == "START_TRAINING":
        library = call.service.library
        try:
            job = jobs.start(call.service.jobs, "learn", library.learn)
        except Problem as problem:
            if problem.kind != "already-running":
                raise
            return {"status": "ok", "job": problem.more["job"]}
        return {"status": "ok", "job": job.number}
    if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED"):
        count = 0
        for annotation, task in _annotations(call.body):
            count += await _decide(call, annotation, task)
    elif action == "ANNOTATIONS_DELETED":
        count = await call.in_thread(_clear_deleted, call.service, call.body)
    else:
        return {"status": "ok"}  # other actions carry no labels
    call.service.refresh_annotator()
    return {"status": "ok", "decisions": count}


def _annotations(body: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """Pair annotations with their tasks; those made from predictions come in one webhook."""
    given = body.get("annotation")
    tasks = body.get("task")
    if not isinstance(given, list):
        given, tasks = [given], [tasks]
    if not isinstance(body.get("project"), dict) or not all(isinstance(a, dict) for a in given):
        raise bad_request(
            "the webhook has no 'project' or no 'annotation': let it send its payload."
        )
    tasks = [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    by_number = {task.get("id"): task for task in tasks}
    if len(given) == 1 == len(tasks):
        return [(given[0], tasks[0])]
    return [(one, by_number.get(one.get("task"))) for one in given[:MAX_ANNOTATIONS]]


async def _decide(call: Call, annotation: dict[str, Any], task: Any) -> int:
    library = call.service.library
    project = call.body["project"]
    if annotation.get("was_cancelled"):
        return 0  # the annotator skipped the task
    config = parse(project.get("label_config"))
    name = name_of(project)
    kept = await call.in_thread(memory, call.service)
    source = await _picture(call, task, config, kept.home(name))
    number = await call.in_thread(_picture_number, library, source)
    if isinstance(annotation.get("id"), int):
        await call.in_thread(kept.keep_picture, name, annotation["id"], number)
    chosen = _chosen(annotation, config)
    return int(await call.in_thread(_decided, library, number, config.choices, chosen))


def _decided(library: Library, number: int, choices: list[str], chosen: list[str]) -> int:
    """Accept the chosen tags and reject the others, because the annotator saw all choices.

    Unknown choices become tags, so that their rejections count once a picture has them.
    """
    accepted = {key(choice) for choice in chosen}
    rejected = [choice for choice in choices if key(choice) not in accepted]
    pairs = [(number, choice, ACCEPTED) for choice in chosen]
    pairs += [(number, choice, REJECTED) for choice in rejected]
    return library.decide(pairs, by=BY, new=True).changed


def _clear_deleted(service: Service, body: dict[str, Any]) -> int:
    """Clear the decisions of deleted annotations, unless a later decision overrides them."""
    library = service.library
    given = body.get("annotations")
    if not isinstance(body.get("project"), dict) or not isinstance(given, list):
        raise bad_request(
            "the webhook has no 'project' or no 'annotations': let it send its payload."
        )
    project = name_of(body["project"])
    kept = memory(service)
    ids = [one.get("id") for one in given[:MAX_ANNOTATIONS] if isinstance(one, dict)]
    numbers = {kept.picture(project, i) for i in ids if isinstance(i, int)}
    pairs = [
        (number, tag, CLEARED)
        for number in numbers
        if number is not None
        for tag in library.decided_by(number, BY)
    ]
    return library.decide(pairs, by=BY).changed


async def job_status(call: Call) -> Any:
    """Return the state of a job that START_TRAINING started."""
    number = str(call.body.get("job"))[:20]
    try:
        job = call.service.jobs.get(int(number))
    except (Problem, ValueError):
        raise Problem(410, "gone", f"the job {number!r} does not exist any more.") from None
    return {"job_status": {RUNNING: "started", DONE: "finished"}.get(job.state, "failed")}


def _chosen(annotation: dict[str, Any], config: Config) -> list[str]:
    chosen: list[str] = []
    for one in annotation.get("result") or ():
        value = one.get("value") if isinstance(one, dict) else None
        if isinstance(value, dict) and one.get("from_name") == config.control:
            chosen += [c for c in value.get("choices") or () if isinstance(c, str)]
    return chosen


def _picture_number(library: Any, source: bytes | Path) -> int:
    """Return the number of a library picture, by its path or the digest of its pixels."""
    from prototag.images.decode import digest

    try:
        view = library.picture(source if isinstance(source, Path) else digest(source).hex())
    except InputError:
        raise not_found("the picture is not in the library: scan its folder first.") from None
    return int(view.number)


def _operation(method: str, path: str, handler: Any, status: int = 200) -> Operation:
    body = "LabelStudioRequest" if method == "POST" else ""
    name = f"labelStudio{path[1:].title()}"
    summary = "Endpoint of the Label Studio backend."
    return Operation(
        method, path, name, summary, handler, "", body, large=True, status=status, prefix=PREFIX
    )


OPERATIONS = (
    _operation("GET", "/health", health),
    _operation("POST", "/setup", setup),
    _operation("POST", "/predict", predict),
    _operation("POST", "/webhook", webhook, 201),
    _operation("POST", "/job_status", job_status),
    _operation("GET", "/versions", versions),
)
