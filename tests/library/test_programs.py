"""What other programs ask of a library: versions, settings, tags by name, pictures by file name."""

from __future__ import annotations

from prototag import Library


def test_the_version_changes_with_the_tags_and_not_otherwise(library):
    before = library.version()
    assert before[0] is None  # no model yet
    assert library.version() == before
    library.decide([(library.pictures()[0], "a tag of its own", "accepted")])
    assert library.version() != before


def test_settings_of_programs_outlive_the_process(library):
    assert library.setting("a program", "nothing") == "nothing"
    library.set_setting("a program", "something")
    library.close()
    with Library(library.path, cache=None) as again:
        assert again.setting("a program", "nothing") == "something"


def test_tags_are_known_in_any_case_and_stay_in_order(library):
    number = library.pictures()[0]
    library.decide([(number, "Sea", "accepted"), (number, "harbour", "accepted")])
    assert library.known_tags(["SEA", "no such tag", "Harbour"]) == ["SEA", "Harbour"]


def test_pictures_are_named_by_whole_file_names_in_any_case(library):
    number = library.pictures()[0]
    [path] = library.picture(number).files
    assert number in library.pictures_named(path.name.upper())
    assert library.pictures_named(path.name[1:]) == []


def test_tags_decided_by_one_program_are_its_own(library):
    number = library.pictures()[0]
    library.decide([(number, "harbour", "accepted")], by="a program")
    library.decide([(number, "sea", "accepted")], by="person")
    assert library.decided_by(number, "a program") == ["harbour"]
    library.decide([(number, "harbour", "rejected")], by="person")
    assert library.decided_by(number, "a program") == []
