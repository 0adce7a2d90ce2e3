"""The whole way with the real program: pictures, predictions, annotations, learning."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tagged
from prototag import Library
from service.conftest import serve  # noqa: F401

CONFIG = (
    '<View><Image name="image" value="$image"/><Choices name="tags" toName="image" '
    'choice="multiple"><Choice value="Red"/><Choice value="green"/><Choice value="blue"/>'
    '<Choice value="striped"/><Choice value="tree"/></Choices></View>'
)
COUNT = 48
NEW = 6  # pictures that nobody has tagged yet


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photographs and their library, which has learned; the last few are not tagged."""
    folder = tmp_path_factory.mktemp("photos") / "collection"
    tagged.collection(folder, COUNT)
    listed = folder / "metadata.jsonl"
    listed.write_text("\n".join(listed.read_text().splitlines()[:-NEW]) + "\n")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
    return folder


def until(found, wanted, seconds=20):
    """Wait for what happens beside us."""
    deadline = time.monotonic() + seconds
    while (seen := found()) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


def choices(results):
    return {choice for one in results for choice in one["value"]["choices"]}


def answer(*names):
    return {
        "result": [
            {"from_name": "tags", "to_name": "image", "type": "choices",
             "value": {"choices": [*names]}}
        ] if names else [],
        "lead_time": 2.0,
    }  # fmt: skip


class Project:
    """A project of Label Studio that asks us."""

    def __init__(self, studio, files: list[Path], service: str) -> None:
        self.studio = studio
        asked = {"title": "photos", "label_config": CONFIG}
        self.number = studio.ask("POST", "/api/projects/", asked)["id"]
        studio.upload(self.number, files)
        self.connect(service)

    def connect(self, service: str) -> None:
        asked = {"url": f"{service}label-studio", "project": self.number, "title": "prototag"}
        self.model = self.studio.ask("POST", "/api/ml", asked)["id"]

    def tasks(self) -> dict[str, dict]:
        """By the name of the picture."""
        found = self.studio.ask("GET", f"/api/tasks?project={self.number}&fields=all")["tasks"]
        return {one["data"]["image"].rpartition("-")[2]: one for one in found}

    def predict(self) -> dict[str, set[str]]:
        """The last prediction of each picture, as Label Studio keeps it."""
        chosen = {"selectedItems": {"all": True, "excluded": []}}
        path = f"/api/dm/actions?id=retrieve_tasks_predictions&project={self.number}"
        self.studio.ask("POST", path, chosen)
        found = {}
        for name, task in self.tasks().items():
            kept = self.studio.ask("GET", f"/api/predictions?task={task['id']}")
            assert kept, name
            found[name] = choices(max(kept, key=lambda one: one["id"])["result"])
        return found

    def annotate(self, name: str, *names: str) -> int:
        task = self.tasks()[name]["id"]
        return self.studio.ask("POST", f"/api/tasks/{task}/annotations/", answer(*names))["id"]


def test_the_whole_way(studio, serve, photos):  # noqa: F811
    files = [photos / f"{number:03}.jpg" for number in range(COUNT - NEW, COUNT)]
    library = Library(photos / "prototag.library", cache=None)
    number = {path.name: library.numbers([path])[0] for path in files}
    service = serve(command=["serve", library.path])
    project = Project(studio, files, service.address)
    model = studio.ask("GET", f"/api/ml/{project.model}")
    assert (model["state"], model["error_message"]) == ("CO", None)

    first = project.predict()
    assert {*first} == {path.name for path in files}
    for name, found in first.items():
        wanted = {*tagged.tags_of(int(name[:3]))}
        assert {choice.lower() for choice in found} <= wanted, name
    assert any(first.values())

    # A yes, a yes to a new tag, and a no to all others; nobody has heard of trees before.
    name = files[0].name
    project.annotate(files[1].name, "striped")  # its tree is turned down before it is a tag
    made = project.annotate(name, "Red", "tree")
    view = library.picture(number[name])
    assert sorted(view.accepted) == ["red", "tree"]
    assert sorted(view.rejected) == ["blue", "green", "striped"]
    other = library.picture(number[files[1].name])
    assert sorted(other.rejected) == ["blue", "green", "red", "tree"]
    assert {one.by for one in library.history()} == {"label-studio"}

    again = project.predict()  # Label Studio asks anew, for the version is another
    assert again[name] == {"Red", "tree"}
    assert again[files[1].name] == {"striped"}

    # Another mind, after our service was ended and started again.
    assert service.stop() == 0
    port = ("--port", service.port)
    service = serve(*port, command=["serve", library.path])
    studio.ask("PATCH", f"/api/annotations/{made}/", answer("blue"))
    until(lambda: library.picture(number[name]).accepted, ["blue"])
    assert "tree" in library.picture(number[name]).rejected

    studio.ask("DELETE", f"/api/annotations/{made}/")
    until(lambda: library.picture(number[name]).accepted, [])
    assert library.picture(number[name]).rejected == []
    assert library.picture(number[files[1].name]).accepted == ["striped"]

    # Predictions taken over as annotations, all at once.
    others = [project.tasks()[path.name]["id"] for path in files[2:4]]
    chosen = {"selectedItems": {"all": False, "included": others}}
    path = f"/api/dm/actions?id=predictions_to_annotations&project={project.number}"
    studio.ask("POST", path, chosen)
    for file in files[2:4]:
        wanted = {choice.lower() for choice in again[file.name]}
        until(lambda file=file: {*library.picture(number[file.name]).accepted}, wanted)

    # Training.
    before = len(library.models())
    studio.ask("POST", f"/api/ml/{project.model}/train", {})
    until(lambda: _jobs(service)[:1], [("learn", "done")], 120)
    assert len(library.models()) >= before
    assert project.predict()
    library.close()
    assert service.stop() == 0


def _jobs(service):
    import json
    from urllib.request import urlopen

    with urlopen(f"{service.address}api/v1/jobs", timeout=10) as answer:
        return [(job["kind"], job["state"]) for job in json.load(answer)["jobs"]]
