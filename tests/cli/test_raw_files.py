"""A folder of raw files is tagged as the same pictures would be as JPEGs."""

from __future__ import annotations

import io
import json

import tagged
from raws import MAKERS


def test_two_hundred_raw_files_are_tagged(run, model, tmp_path):
    names, tags = [], {}
    for number in range(20):
        small, large = io.BytesIO(), io.BytesIO()
        picture = tagged.picture(tagged.tags_of(number), 300 + number)
        picture.resize((16, 12)).save(small, "JPEG")
        picture.save(large, "JPEG", quality=90)
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / f"{number:02}.jpg").write_bytes(large.getvalue())
        for kind, made in MAKERS.items():
            name = f"{number:02}.{kind.upper() if number % 2 else kind}"
            names.append(name)
            (tmp_path / "new" / name).write_bytes(made(large.getvalue(), small.getvalue(), 1))
    done = run("annotate", tmp_path / "new", "-m", model, "--json")
    assert done.exit_code == 0, done.stderr
    for line in done.stdout.splitlines():
        found = json.loads(line)
        path = found["path"].rsplit("/", 1)[1]
        tags[path] = [(tag["tag"], round(tag["probability"], 6)) for tag in found["tags"]]
    assert len(names) == 200
    assert {*tags} == {*names, *(f"{number:02}.jpg" for number in range(20))}
    for name in names:
        assert tags[name] == tags[f"{name[:2]}.jpg"], name
    given = [{tag for tag, _ in tags[f"{number:02}.nef"]} for number in range(0, 20, 2)]
    assert given == [{*tagged.tags_of(number)} for number in range(0, 20, 2)]
