"""``prototag annotate``: formats, limits, journals, sidecars, and what can go wrong."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tagged
from prototag import Annotator, metadata
from prototag.storage import modelfile
from prototag.storage.modelfile import reader


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_text_json_and_csv_agree(run, model, new):
    plain = run("annotate", new[0].parent, "-m", model)
    assert plain.exit_code == 0
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(path) for path in new]
    assert set(rows[0][1:]) == set(tagged.tags_of(100))
    found = lines(run("annotate", *new, "-m", model, "--json").stdout)
    assert [[tag["tag"] for tag in one["tags"]] for one in found] == [row[1:] for row in rows]
    table = list(csv.DictReader(io.StringIO(run("annotate", *new, "-m", model, "--csv").stdout)))
    assert [(row["path"], row["tag"]) for row in table] == [
        (row[0], tag) for row in rows for tag in row[1:]
    ]
    assert 0 <= float(table[0]["probability"]) <= 1


def test_json_names_the_tags_that_were_added_and_removed(run, model, new):
    """Programs apply the same changes to their own databases."""
    first = lines(run("annotate", new[0], "-m", model, "--json", "--write-xmp").stdout)[0]
    assert (first["added"], first["removed"]) == ([tag["tag"] for tag in first["tags"]], [])
    again = lines(run("annotate", new[0], "-m", model, "--json", "--write-xmp").stdout)[0]
    assert (again["added"], again["removed"]) == ([], [])
    fewer = run("annotate", new[0], "-m", model, "--json", "--write-xmp", "--top", 1).stdout
    assert sorted(lines(fewer)[0]["removed"]) == sorted(first["added"][1:])
    assert "added" not in lines(run("annotate", new[0], "-m", model, "--json").stdout)[0]


def test_paths_come_from_folders_below_and_from_standard_input(run, model, new, tmp_path):
    inner = tmp_path / "new" / "inner"
    tagged.collection(inner, 1, start=200, listed=False)
    (inner / "notes.txt").write_text("no picture")
    (inner / ".hidden.jpg").write_bytes(new[0].read_bytes())
    below = run("annotate", tmp_path / "new", "-m", model, "--json")
    assert len(lines(below.stdout)) == 5
    named = run("annotate", "-", "-m", model, "--json", input=f"{new[1]}\n\n{inner}\n")
    assert [one["path"] for one in lines(named.stdout)] == [str(new[1]), str(inner / "200.jpg")]


def test_the_header_is_parsed_and_the_tags_are_chosen_once(run, model, new, monkeypatch):
    calls = []
    check = reader.check_json
    selector = Annotator.selector

    def checked(value, where, depth=0):
        if depth == 0:
            calls.append("header")
        check(value, where, depth)

    def chosen(self, **options):
        calls.append("selector")
        return selector(self, **options)

    monkeypatch.setattr(reader, "check_json", checked)
    monkeypatch.setattr(Annotator, "selector", chosen)
    assert run("annotate", *new, "-m", model, "--top", 1).exit_code == 0
    assert calls == ["header", "selector"]


def test_limits(run, model, new, tmp_path):
    top = lines(run("annotate", new[0], "-m", model, "--json", "--top", 2).stdout)
    assert len(top[0]["tags"]) == 2
    words = tmp_path / "words.txt"
    words.write_text("Green\n\nnot in the model\n")
    for tags in (words, "green, red"):
        found = lines(run("annotate", *new, "-m", model, "--json", "--tags", tags).stdout)
        assert {t["tag"] for one in found for t in one["tags"]} <= {"green", "red"}
    some = run("annotate", *new, "-m", model, "--tags", words)
    assert some.exit_code == 0
    assert f"these tags of {words}, which are ignored: not in the model." in some.stderr
    wrong = run("annotate", *new, "-m", model, "--tags", "red, grene")
    assert wrong.exit_code == 1
    assert "the model knows no tag 'grene': did you mean 'green'?" in wrong.stderr
    words.write_text("unheard of")
    none = run("annotate", *new, "-m", model, "--tags", words)
    assert none.exit_code == 1
    assert "knows none of the tags in" in none.stderr
    assert run("annotate", *new, "-m", model, "--precision", 0.9).exit_code == 0
    both = run("annotate", *new, "-m", model, "--precision", 0.9, "--min-probability", 0.5)
    assert both.exit_code == 2
    assert "give only one of" in both.stderr
    assert run("annotate", *new, "-m", model, "--json", "--csv").exit_code == 2


def test_broken_pictures_are_named_and_the_others_done(run, model, new):
    new[1].write_bytes(b"no picture")
    result = run("annotate", *new, "/no/such.jpg", "-m", model, "--json")
    assert result.exit_code == 3
    assert ["error" in one for one in lines(result.stdout)] == [False, True, False, False, True]
    assert str(new[1]) in result.stderr
    assert "2 of 5 pictures failed" in result.stderr


def test_the_hint_to_install_heic_is_printed_once(run, model, new, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for path in new[:3]:
        path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(40))
    result = run("annotate", *new, "-m", model)
    assert result.exit_code == 3
    assert result.stderr.count("pip install 'prototag[heif]'") == 1
    assert "3 of 4 pictures failed." in result.stderr


def test_an_output_file_is_written_atomically_and_can_be_resumed(
    run, model, new, tmp_path, monkeypatch
):
    target, part = tmp_path / "tags.csv", tmp_path / "tags.csv.part"
    real, count = Annotator.annotate_with, 2

    def broken_off(self, images, limits):
        for number, found in enumerate(real(self, images, limits)):
            if number == count:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(Annotator, "annotate_with", broken_off)
    first = run("annotate", *new, "-m", model, "-o", target)
    assert first.exit_code == 130
    assert "interrupted" in first.stderr
    assert f"2 pictures are kept in {part}: the same command with --resume" in first.stderr
    assert not target.exists()
    with part.open("a") as file:
        file.write('{"path": "half a li')  # as a power cut leaves it
    asked = []

    def noted(self, images, limits):
        for found in real(self, images, limits):
            asked.append(str(found.source))
            yield found

    monkeypatch.setattr(Annotator, "annotate_with", noted)
    other = run("annotate", *new, "-m", model, "-o", target, "--resume", "--top", 1)
    assert other.exit_code == 1
    assert "other options" in other.stderr
    assert run("annotate", *new, "-m", model, "-o", target, "--resume").exit_code == 0
    assert asked == [str(path) for path in new[2:]]
    assert not part.exists()
    whole = run("annotate", *new, "-m", model, "--csv").stdout
    assert target.read_text() == whole
    assert run("annotate", *new, "-m", model, "--resume").exit_code == 2


def test_sidecars_are_planned_written_once_and_removed(run, model, new):
    sidecars = [path.with_name(path.name + ".xmp") for path in new]
    dry = run("annotate", *new, "-m", model, "--write-xmp", "--dry-run")
    assert dry.exit_code == 0
    counts = dict(line.split("\t")[:2] for line in dry.stdout.splitlines())
    own = [tag for number in range(100, 104) for tag in tagged.tags_of(number)]
    assert counts == {tag: f"+{own.count(tag)}" for tag in own}
    assert "4 sidecars would change" in dry.stderr
    whole = run("annotate", *new, "-m", model, "--diff")
    assert whole.stdout.count("+++") == 4
    assert "green" in whole.stdout
    assert not any(path.exists() for path in sidecars)
    first = run("annotate", *new, "-m", model, "--write-xmp")
    assert "4 sidecars written" in first.stderr
    assert set(metadata.read_keywords(new[0]).added) == set(tagged.tags_of(100))
    before = [path.read_bytes() for path in sidecars]
    second = run("annotate", *new, "-m", model, "--write-xmp")
    assert "0 sidecars written, 4 unchanged" in second.stderr
    assert [path.read_bytes() for path in sidecars] == before
    taken = run("untag", new[0].parent)
    assert taken.exit_code == 0
    assert "4 files changed" in taken.stderr
    assert metadata.read_keywords(new[0]).added == ()
    assert run("annotate", *new, "-m", model, "--write-xmp", "--sidecar", "stem").exit_code == 0
    assert run("untag", *new, "--diff", "--tags", "green").stdout.count("+++") >= 1
    green = sum("green" in tagged.tags_of(number) for number in range(100, 104))
    assert run("untag", *new, "--dry-run", "--tags", "green").stdout == f"green\t\t-{green}\n"


def test_tags_are_written_into_jpeg_files_only_where_asked_to(run, model, new):
    png = new[3].with_suffix(".png")
    tagged.picture(tagged.tags_of(104), 104).save(png)
    new[3].unlink()
    files = [*new[:3], png]
    before = [path.read_bytes() for path in files]
    dry = run("annotate", *files, "-m", model, "--embed", "--dry-run")
    assert "3 pictures would change, 0 unchanged." in dry.stderr
    assert [path.read_bytes() for path in files] == before
    done = run("annotate", *files, "-m", model, "--embed", "--keep-originals")
    assert done.exit_code == 0, done.stderr
    assert "3 pictures written, 0 unchanged." in done.stderr
    assert "1 picture skipped (not JPEG)" in done.stderr
    assert set(metadata.read_keywords(new[0]).added) == set(tagged.tags_of(100))
    assert new[0].with_name("100.jpg_original").read_bytes() == before[0]
    assert png.read_bytes() == before[3]
    assert not list(png.parent.glob("*.xmp"))
    again = run("annotate", *files, "-m", model, "--embed", "--write-xmp")
    assert "0 pictures written, 1 sidecar written, 3 unchanged." in again.stderr
    taken = run("untag", *files)
    assert taken.exit_code == 0
    assert "4 files changed" in taken.stderr
    assert [path.read_bytes() for path in files] == before
    assert run("annotate", *files, "-m", model, "--keep-originals").exit_code == 2


def test_a_broken_sidecar_is_never_overwritten(run, model, new):
    broken = new[0].with_name(new[0].name + ".xmp")
    broken.write_text("<x:xmpmeta half written")
    result = run("annotate", *new, "-m", model, "--write-xmp")
    assert result.exit_code == 3
    assert broken.name in result.stderr
    assert broken.read_text() == "<x:xmpmeta half written"
    assert new[1].with_name(new[1].name + ".xmp").exists()


def test_two_runs_at_once_lose_nothing(model, new):
    command = [sys.executable, "-m", "prototag", "annotate", str(new[0].parent), "-m", str(model)]
    runs = [
        subprocess.Popen([*command, "--write-xmp"], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    for path in new:
        assert metadata.read_keywords(path).added
        assert path.with_name(path.name + ".xmp").read_bytes().count(b"<rdf:RDF") == 1


@pytest.mark.parametrize("text", ["a, b", "🦊 fox", "x" * 1000, "<b>&amp;</b>"])
def test_any_text_may_be_a_tag(run, new, tmp_path, text):
    header, arrays = modelfile.read(tagged.model(tmp_path))
    header["tags"] = [text if name == "green" else name for name in header["tags"]]
    path = tmp_path / "odd.prototag"
    modelfile.write(path, header, arrays)
    result = run("annotate", new[0], "-m", path, "--json", "--write-xmp")
    assert result.exit_code == 0
    assert text in {tag["tag"] for tag in lines(result.stdout)[0]["tags"]}
    assert text in metadata.read_keywords(new[0]).added
    again = run("annotate", new[0], "-m", path, "--write-xmp")
    assert "0 sidecars written" in again.stderr


def test_models_that_cannot_be_read(run, model, new, tmp_path):
    def refused(path):
        result = run("annotate", *new, "-m", path)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        return result.stderr

    assert "does not exist" in refused(tmp_path / "none.prototag")
    text = tmp_path / "text.prototag"
    text.write_text("hello, this is not a model")
    assert "not a model file" in refused(text)
    data = bytearray(model.read_bytes())
    cut = tmp_path / "cut.prototag"
    cut.write_bytes(data[:-100])
    assert "bytes where its header needs" in refused(cut)
    data[-5] ^= 1
    cut.write_bytes(data)
    header, arrays = modelfile.read(model)
    newer = tmp_path / "newer.prototag"
    modelfile.write(newer, header, arrays)
    body = newer.read_bytes()
    own = f'\\"version\\":{modelfile.VERSION}'.encode()
    assert own in body
    newer.write_bytes(body.replace(own, f'\\"version\\":{modelfile.VERSION + 1}'.encode()))
    assert "altered" in refused(newer)


def test_a_model_of_a_newer_version_is_distinguished_from_a_broken_one(
    run, model, new, tmp_path, monkeypatch
):
    from prototag.storage.modelfile import reader, writer

    header, arrays = modelfile.read(model)
    monkeypatch.setattr(writer, "VERSION", reader.VERSION + 1)
    path = tmp_path / "newer.prototag"
    modelfile.write(path, header, arrays)
    result = run("annotate", *new, "-m", path)
    assert result.exit_code == 1
    assert "install a newer prototag" in result.stderr


def test_an_empty_folder(run, model, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("annotate", tmp_path / "empty", "-m", model)
    assert result.exit_code == 1
    assert "no pictures were found" in result.stderr


def test_folders_that_cannot_be_read_are_named_and_the_others_done(run, model, new, monkeypatch):
    folder = new[0].parent
    for name in ("locked", "@eaDir"):
        (folder / name).mkdir()
        (folder / name / "thumb.jpg").write_bytes(new[0].read_bytes())
    real = os.scandir

    def forbidden(path):
        if os.fspath(path).endswith("locked"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    result = run("annotate", folder, "-m", model, "--json")
    assert result.exit_code == 3
    assert [one["path"] for one in lines(result.stdout)] == [str(path) for path in new]
    assert f"{folder / 'locked'} cannot be read: Permission denied" in result.stderr
    only = run("annotate", folder / "locked", "-m", model)
    assert only.exit_code == 3
    assert "no pictures were found" not in only.stderr


def test_a_folder_that_cannot_be_written(run, model, new, monkeypatch):
    real, folder = os.open, os.fspath(new[0].parent)

    def forbidden(path, flags, *rest, **options):
        if flags & os.O_CREAT and os.fspath(path).startswith(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", forbidden)
    result = run("annotate", *new, "-m", model, "--write-xmp")
    assert result.exit_code == 3
    assert "Permission denied" in result.stderr
    assert "4 of 4 pictures failed" in result.stderr
    assert [path.name for path in sorted(new[0].parent.iterdir())] == [path.name for path in new]
    locked = run("annotate", *new, "-m", model, "-o", new[0].parent / "tags.json")
    assert locked.exit_code == 1
    assert "Permission denied" in locked.stderr


def test_a_full_disk(model, new, tmp_path):
    """No file may grow, for this process: what a full disk says, and also to whoever is root."""
    import resource

    def nothing_fits():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [sys.executable, "-m", "prototag", "annotate", str(new[0].parent), "-m", str(model)]
    result = subprocess.run(
        [*command, "--write-xmp", "--cache", str(tmp_path / "cache.sqlite")],
        preexec_fn=nothing_fits,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in result.stderr
    assert result.returncode == 3
    assert "the cache" in result.stderr
    assert "4 of 4 pictures failed" in result.stderr
    assert len(result.stdout.splitlines()) == 4  # what needs no disk is done all the same
    assert [path.name for path in sorted(new[0].parent.iterdir())] == [path.name for path in new]


def test_the_reader_of_a_pipe_may_close_it(model, new):
    command = f"{sys.executable} -m prototag annotate {new[0].parent} -m {model} --json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_help_and_version(run):
    page = run("--help")
    assert page.exit_code == 0
    for word in ("demo", "train", "annotate", "untag", "Exit codes", "PROTOTAG_MODEL"):
        assert word in page.stdout
    assert run("--version").stdout.startswith("prototag ")
    assert run("annotate").exit_code == 2
    assert run("unheard-of").exit_code == 2


def test_debug_shows_where(run, new):
    with pytest.raises(Exception, match="does not exist"):
        run("--debug", "annotate", *new, "-m", "/no/model")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_quietly(model, tmp_path):
    fifo = tmp_path / "names"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "prototag", "annotate", "-", "-m", str(model)]
    # A shell starts jobs in the background deaf to Ctrl-C, and they hand that on.
    options = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": _hear_ctrl_c}
    with (
        open(os.open(fifo, os.O_RDWR)) as names,  # standard input that stays open
        subprocess.Popen(command, stdin=names, **options) as run,
    ):
        for _ in range(600):  # until it is past loading, where Python itself would still answer
            time.sleep(0.05)
            if b"onnxruntime" in Path(f"/proc/{run.pid}/maps").read_bytes():
                break
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        try:
            _, complaint = run.communicate(timeout=60)
        finally:
            run.kill()
    assert run.returncode == 130
    assert "Traceback" not in complaint


def _hear_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def renamed(model, tmp_path, **names):
    """The same model with other names for its tags."""
    header, arrays = modelfile.read(model)
    header["tags"] = [names.get(name, name) for name in header["tags"]]
    path = tmp_path / "renamed.prototag"
    modelfile.write(path, header, arrays)
    return path


def started(*arguments, **options):
    command = [sys.executable, "-m", "prototag", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def ended(*arguments, **options):
    with started(*arguments, **options) as process:
        out, complaint = process.communicate(timeout=120)
    return process.returncode, out, complaint


def test_tags_are_found_by_the_end_of_their_path(run, model, new, tmp_path):
    path = renamed(model, tmp_path, green="Farben|Grün", red="Farben|rot")
    found = lines(run("annotate", *new, "-m", path, "--tags", "GRUN, rot", "--json").stdout)
    assert {tag["tag"] for one in found for tag in one["tags"]} <= {"Farben|Grün", "Farben|rot"}
    why = json.loads(run("explain", new[0], "-m", path, "-t", "grün", "--json").stdout)
    assert [tag["tag"] for tag in why["tags"]] == ["Farben|Grün"]
    wrong = run("explain", new[0], "-m", path, "-t", "gruen")
    assert wrong.exit_code == 1
    assert "knows no tag 'gruen': did you mean 'Farben|Grün'?" in wrong.stderr


def test_a_terminal_of_another_encoding_ends_nothing(model, new, tmp_path):
    path = renamed(model, tmp_path, green="grün 🌲")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for form in ((), ("--csv",), ("--diff",)):
        code, out, complaint = ended("annotate", *new, "-m", path, *form, env=environment)
        assert (code, b"bug" in complaint) == (0, False), complaint
        assert b"gr\\xfcn \\U0001f332" in out


def test_output_has_no_escape_codes_or_spreadsheet_formulas(run, model, new, tmp_path):
    path = renamed(model, tmp_path, green="\x1b[31m=1+1", striped="=HYPERLINK(1)", dotted="@x")
    odd = new[0].with_name("\x1b]0;x\x07.jpg")
    new[0].rename(odd)
    for form in ((), ("--csv",), ("--diff",), ("--dry-run",), ("--json",)):
        said = run("annotate", odd, *new[1:], "-m", path, *form)
        assert said.exit_code == 0
        assert not set("\x1b\x07") & set(said.stdout + said.stderr)
    said = run("annotate", *new[1:], "-m", path, "-o", tmp_path / "tags.csv")
    rows = list(csv.reader((tmp_path / "tags.csv").read_text().splitlines()))
    assert {row[1][0] for row in rows} <= {"t", "b", "r", "'", "\\"}


def test_a_name_that_is_no_text_ends_nothing(model, new):
    odd = os.fsencode(new[0].parent) + b"/Zo\xeb.jpg"
    os.rename(new[0], odd)
    folder = new[0].parent
    for form in ((), ("--csv",), ("--diff",), ("--dry-run",), ("--json",)):
        code, out, complaint = ended("annotate", folder, "-m", model, *form)
        assert (code, b"Traceback" in complaint) == (0, False), complaint
    process = started("annotate", "-", "-m", model, "--csv", stdin=subprocess.PIPE)
    out, complaint = process.communicate(odd + b"\n", timeout=120)
    assert process.returncode == 0, complaint
    assert odd in out


def test_paths_on_standard_input_are_answered_as_they_come(model, new):
    with started("annotate", "-", "-m", model, "--json", stdin=subprocess.PIPE) as process:
        for path in new[:2]:  # each answer before the next question
            process.stdin.write(os.fsencode(path) + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["path"] == str(path)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stderr.close()


def test_training_pictures_are_reported(run, model, new, tmp_path):
    known = tagged.collection(tmp_path / "known", 3, listed=False)
    result = run("annotate", *known, *new, "-m", model, "--json")
    found = lines(result.stdout)
    assert [one["in_training_set"] for one in found] == [True] * 3 + [False] * 4
    assert "3 of these pictures were used for training" in result.stderr
    assert "learned from" not in run("annotate", *new, "-m", model).stderr


def test_quiet_prints_results_and_errors_only(run, model, new):
    said = run("annotate", *new, "/no/such.jpg", "-m", model, "--write-xmp", "--quiet")
    assert len(said.stdout.splitlines()) == 4
    assert "sidecar" not in said.stderr
    assert "such.jpg" in said.stderr
    assert run("untag", *new, "-q").stderr == ""
    assert run("annotate", *new, "-m", model, "--write-xmp").stderr != ""  # of one run alone


@pytest.mark.parametrize(
    "command", ["annotate -o", "explain --html", "evaluate --html", "evaluate -o"]
)
def test_photographs_and_models_are_never_replaced(run, model, new, tmp_path, command):
    name, option = command.split()
    text = tmp_path / "thesis.html"
    text.write_text("ten years of work")
    figures = tmp_path / "thesis.json"
    figures.write_text('["ten years of work"]')
    for precious in (new[1], model, text, figures, new[0]):
        before = precious.read_bytes()
        result = run(name, new[0], "-m", model, option, precious)
        assert result.exit_code == 2
        words = " ".join(result.stderr.replace("│", " ").split())
        assert "exists and is not" in words or "are written as" in words
        if precious is figures:
            assert "exists and is not" in words
        assert precious.read_bytes() == before
    device = run(name, new[0], "-m", model, option, "/dev/null")
    assert device.exit_code == 2


def test_own_results_and_pages_may_be_replaced(run, model, new, tmp_path):
    for _ in range(2):
        for suffix in ("json", "csv"):
            out = tmp_path / f"tags.{suffix}"
            assert run("annotate", *new, "-m", model, "-o", out).exit_code == 0
        page = run("explain", new[0], "-m", model, "--html", tmp_path / "why.html")
        assert page.exit_code == 0
        tagged.collection(tmp_path / "other", 8, start=100)
        options = ("--html", tmp_path / "report.html", "-o", tmp_path / "report.json")
        assert run("evaluate", tmp_path / "other", "-m", model, *options).exit_code == 0


@pytest.mark.parametrize("command", ["inspect", "annotate", "--help"])
def test_a_closed_or_full_standard_output_is_no_traceback(model, new, command):
    arguments = {"annotate": f"annotate {new[0]} -m {model}", "inspect": f"inspect -m {model}"}
    words = f"{sys.executable} -m prototag {arguments.get(command, command)}"
    for shell, code in ((f"{words} >&-", 0), (f"{words} | true", 0), (f"{words} > /dev/full", 1)):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr, shell
        assert "Exception ignored" not in done.stderr, shell
        assert done.returncode == code or command == "--help", shell


def test_the_choice_of_tags_is_computed_once(run, model, new, monkeypatch):
    real, asked = Annotator.selector, []

    def counted(self, **options):
        asked.append(options)
        return real(self, **options)

    monkeypatch.setattr(Annotator, "selector", counted)
    assert run("annotate", *new, "-m", model, "--min-probability", 1).exit_code == 0
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("form", "name"),
    [("coco", "coco.json"), ("fiftyone", "labels.json"), ("imagefolder", "metadata.jsonl")],
)
def test_data_sets_of_other_programs(run, model, new, form, name):
    new[1].write_bytes(b"no picture")
    file = new[0].parent / name
    expected = {
        record["path"]: [tag["tag"] for tag in record["tags"]]
        for record in map(
            json.loads, run("annotate", *new, "-m", model, "--json").stdout.splitlines()
        )
        if "error" not in record
    }
    for _ in range(2):  # a result of annotate may be overwritten
        result = run("annotate", new[0].parent, "-m", model, "-o", file, "--format", form)
        assert result.exit_code == 3  # one picture cannot be read
        collected = metadata.collect(file)
        assert {
            str(path): tags for path, tags in zip(collected.images, collected.tags, strict=True)
        } == expected
    assert not file.with_name(f"{name}.part").exists()


def test_data_sets_that_cannot_be_written_are_refused_before_any_picture(run, model, new, tmp_path):
    def refused(*options):
        result = run("annotate", *new, "-m", model, *options)
        assert result.exit_code in (1, 2)
        assert result.stdout == ""
        return " ".join(result.stderr.split())

    assert "give --output" in refused("--format", "coco")
    assert "give --output" in refused("--format", "coco", "-o", tmp_path / "a.json", "--json")
    assert "written as .jsonl" in refused("--format", "imagefolder", "-o", tmp_path / "a.json")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = refused("--format", "fiftyone", "-o", elsewhere / "a.json")
    assert "write the file into the folder of the pictures" in words
    assert not any(elsewhere.iterdir())
