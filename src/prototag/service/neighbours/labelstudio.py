"""Label Studio's machine-learning backend: health, setup, predict, and learning by its webhooks.

Give Label Studio the address ``http://127.0.0.1:PORT/label-studio``. Its pictures are found by
their data URLs, inside of the allowed folders (its local files), or at Label Studio itself if that
runs on this computer or on a host that was allowed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit
from xml.etree import ElementTree

from prototag.errors import ImageError, InputError
from prototag.library.results import ACCEPTED, CLEARED, REJECTED
from prototag.metadata.tags import key, leaf
from prototag.service.core import Service
from prototag.service.neighbours.fetching import fetch, may_ask
from prototag.service.problems import Problem, bad, missing, of
from prototag.service.routes import annotating, working
from prototag.service.routes.table import Call, Operation

PREFIX = "/label-studio"
BY = "label-studio"
MAX_CONFIG = 1 << 20  # characters
MAX_TASKS = 256
MAX_PROJECTS = 1000


class Config(NamedTuple):
    """What of a labelling configuration is ours: the choices that are made of an image."""

    control: str  # name of <Choices>
    image: str  # name of <Image>
    field: str  # of a task's data that holds the image
    choices: list[str]
    single: bool


class Home(NamedTuple):
    """Where a project lives."""

    hostname: str
    token: str


def parse(text: Any) -> Config:
    """The choices of a configuration."""
    if not isinstance(text, str) or len(text) > MAX_CONFIG or "<!" in text.replace("<!--", ""):
        raise bad("the labelling configuration is missing, too long, or declares entities.")
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise bad(f"the labelling configuration is not valid XML: {error}.") from None
    images = {one.get("name"): one.get("value", "") for one in tree.iter("Image")}
    for control in tree.iter("Choices"):
        name, target = control.get("name"), control.get("toName")
        if name and target in images and images[target].startswith("$"):
            choices = [c.get("value", "") for c in control.iter("Choice")]
            single = control.get("choice", "single").startswith("single")
            return Config(name, str(target), images[target][1:], choices, single)
    raise bad("the labelling configuration has no <Choices> of an <Image value='$...'>: add one.")


class Projects:
    """Where the projects live that have been set up."""

    def __init__(self) -> None:
        self._homes: dict[str, Home] = {}

    def keep(self, project: str, home: Home) -> None:
        self._homes.pop(project, None)
        self._homes[project] = home
        while len(self._homes) > MAX_PROJECTS:
            del self._homes[next(iter(self._homes))]

    def home(self, project: Any) -> Home | None:
        """By the name that it was set up with (``1.1794798044``) or by its number."""
        text = str(project)
        found = self._homes.get(text)
        if found is None:  # a webhook says the number alone
            named = (h for name, h in self._homes.items() if name.partition(".")[0] == text)
            found = next(named, None)
        return found


def projects(service: Service) -> Projects:
    found: Projects = service.__dict__.setdefault("label_studio_projects", Projects())
    return found


async def health(_: Call) -> Any:
    return {"status": "UP", "model_class": "prototag"}


async def setup(call: Call) -> Any:
    if call.body.get("schema"):
        parse(call.body["schema"])
    hostname, token = (str(call.body.get(k) or "") for k in ("hostname", "access_token"))
    if may_ask(hostname, call.service.fetch):
        projects(call.service).keep(str(call.body.get("project", "")), Home(hostname, token))
    return {"model_version": await version(call.service)}


async def version(service: Service) -> str:
    """Of the model, as Label Studio keeps it with predictions."""
    try:
        header = getattr(await service.ready(), "header", {})
        return f"prototag {header.get('provenance', {}).get('created', '')}".strip()
    except Problem:
        return "prototag, nothing learned yet"


async def predict(call: Call) -> Any:
    tasks = call.body.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > MAX_TASKS:
        raise bad(f"'tasks' is no list of at most {MAX_TASKS}: send fewer at a time.")
    config = parse(call.body.get("label_config"))
    home = projects(call.service).home(call.body.get("project"))
    await call.service.ready()  # refused at once where nothing was learned
    room = asyncio.Semaphore(annotating.AT_ONCE)

    async def one(task: Any) -> dict[str, Any]:
        try:
            async with room:
                sight = await call.service.pool.see(await _picture(call, task, config, home))
        except Exception as error:
            problem = of(error)
            if problem.status in (429, 503):
                raise problem from None
            return {"result": [], "score": 0.0, "error": problem.detail}
        return _prediction(sight, config)

    found = await asyncio.gather(*(one(task) for task in tasks))
    made = await version(call.service)
    return {"results": [{"model_version": made, **prediction} for prediction in found]}


def _prediction(sight: Any, config: Config) -> dict[str, Any]:
    given = annotating.judged(sight, {}).tags
    spelt = {key(choice): choice for choice in config.choices}
    found: dict[str, float] = {}
    for tag in given:  # the likeliest first
        choice = spelt.get(key(tag.name)) or spelt.get(key(leaf(tag.name)))
        if choice is not None:
            found.setdefault(choice, tag.probability)
    if config.single:
        found = dict(list(found.items())[:1])
    if not found:
        return {"result": [], "score": 0.0}
    score = round(sum(found.values()) / len(found), 4)
    result = {
        "from_name": config.control,
        "to_name": config.image,
        "type": "choices",
        "value": {"choices": list(found)},
        "score": score,
    }
    return {"result": [result], "score": score}


async def _picture(call: Call, task: Any, config: Config, home: Home | None) -> bytes | Path:
    """The picture of a task, wherever we may read it."""
    data = task.get("data") if isinstance(task, dict) else None
    given = data.get(config.field) if isinstance(data, dict) else None
    if not isinstance(given, str) or not given:
        raise bad(f"a task has no text in its field {config.field!r}.")
    if given.startswith("data:"):
        return await annotating.decoded(call, given)
    parts = urlsplit(given)
    if parts.path.endswith("/data/local-files/"):
        named = parse_qs(parts.query).get("d", [""])[0]
        return call.service.roots.find(named)
    if not parts.scheme and not parts.path.startswith("/data/"):
        return call.service.roots.find(given)
    if home is None and not parts.scheme:
        raise ImageError(
            "lies at Label Studio, which has not said where it is, or is not on this computer: "
            "save the model in its settings again, or start the service with --fetch HOST"
        )
    base = home.hostname if home else ""
    url = urljoin(base.rstrip("/") + "/", given)
    # The token is for Label Studio alone.
    own = home is not None and urlsplit(url)[:2] == urlsplit(base)[:2]
    headers = {"Authorization": f"Token {home.token}"} if home and own and home.token else {}
    most = call.service.intake.limits.picture
    return await call.off(fetch, url, call.service.fetch, headers, most)


async def webhook(call: Call) -> Any:
    action = call.body.get("action")
    if action == "START_TRAINING":
        library = call.service.library
        try:
            job = working.start(call.service.jobs, "learn", library.learn)
        except Problem as problem:
            if problem.kind != "already-running":
                raise
            return {"status": "ok", "job": problem.more["job"]}
        return {"status": "ok", "job": job.number}
    if action not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATION_DELETED"):
        return {"status": "ok"}  # there are many others, which say nothing to us
    return {"status": "ok", "decisions": await _decide(call, str(action))}


async def _decide(call: Call, action: str) -> int:
    library, body = call.service.library, call.body
    project, annotation = body.get("project"), body.get("annotation")
    task = body.get("task")
    if not isinstance(project, dict) or not isinstance(annotation, dict):
        raise bad("the webhook has no 'project' or no 'annotation': let it send its payload.")
    if annotation.get("was_cancelled"):
        return 0  # skipped: nothing was said
    config = parse(project.get("label_config"))
    home = projects(call.service).home(project.get("id"))
    source = await _picture(call, task, config, home)
    number = await call.off(_number, library, source)
    gone = action == "ANNOTATION_DELETED"
    chosen = {key(choice) for choice in _chosen(annotation, config)}
    known = {key(tag.name) for tag in await call.off(library.tags)}
    decisions = []
    for choice in config.choices:
        # Whoever made the annotation saw all the choices: those not taken were turned down.
        verdict = CLEARED if gone else ACCEPTED if key(choice) in chosen else REJECTED
        if verdict == ACCEPTED or key(choice) in known:
            decisions.append((number, choice, verdict))
    return int(await call.off(library.decide, decisions, by=BY)) if decisions else 0


def _chosen(annotation: dict[str, Any], config: Config) -> list[str]:
    found: list[str] = []
    for one in annotation.get("result") or ():
        value = one.get("value") if isinstance(one, dict) else None
        if isinstance(value, dict) and one.get("from_name") == config.control:
            found += [c for c in value.get("choices") or () if isinstance(c, str)]
    return found


def _number(library: Any, source: bytes | Path) -> int:
    """Of a picture of the library: by its place, or by what is seen of it."""
    from prototag.images.decode import digest

    try:
        view = library.picture(source if isinstance(source, Path) else digest(source).hex())
    except InputError:
        raise missing("the picture is not in the library: scan its folder first.") from None
    return int(view.number)


def _operation(method: str, path: str, handler: Any, status: int = 200) -> Operation:
    body = "LabelStudioRequest" if method == "POST" else ""
    name = f"labelStudio{path[1:].title()}"
    words = "Asked by Label Studio."
    return Operation(
        method, path, name, words, handler, "", body, large=True, status=status, prefix=PREFIX
    )


OPERATIONS = (
    _operation("GET", "/health", health),
    _operation("POST", "/setup", setup),
    _operation("POST", "/predict", predict),
    _operation("POST", "/webhook", webhook, 201),
)
