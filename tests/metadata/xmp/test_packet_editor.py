"""Splices in the file's own indentation, prefixes and line ends, and the laws of merging.

A person's bytes stay, the second run does nothing, stripping restores.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prototag.errors import MetadataError
from prototag.metadata.tag_names import clean, key, leaf, unique, with_slashes
from prototag.metadata.xmp.packet import (
    HIERARCHICAL,
    SUBJECT,
    TAGS_LIST,
    WRITTEN_PROPERTIES,
    Packet,
)
from prototag.metadata.xmp.packet_editor import merge, strip

from ..shapes import golden, texts

RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/">%s</rdf:RDF>'
)
ABOUT = '<rdf:Description rdf:about=""%s'


def test_splices_follow_the_indentation_and_the_prefixes_of_the_file():
    data = merge(golden("lightroom"), ["fox"]).data.decode()
    assert "     <rdf:li>pier</rdf:li>\n     <rdf:li>fox</rdf:li>\n    </rdf:Bag>" in data
    assert '\n  </rdf:Description>\n  <rdf:Description rdf:about=""\n   xmlns:' in data
    data = merge(golden("bridge"), ["fox"]).data.decode()
    assert '\r\n      <rdf:Description rdf:about="uuid:a&amp;b"\r\n         xmlns:' in data
    assert "\n" not in data.replace("\r\n", "")
    data = merge(golden("prefixes"), ["fox"]).data.decode()
    assert "</li><li>fox</li></Bag></p:subject>" in data
    assert '<r:Description r:about="" xmlns:digiKam=' in data
    assert "\n" not in data


def test_a_list_in_two_places_is_one():
    second = '<rdf:Description rdf:about=""><dc:subject><rdf:Bag>%s</rdf:Bag></dc:subject>'
    second += "</rdf:Description>"
    items = ["<rdf:li>one</rdf:li>", "<rdf:li>two</rdf:li><rdf:li>one</rdf:li>"]
    old = (RDF % "".join(second % item for item in items)).encode()
    data = merge(old, ["fox"]).data
    assert texts(data)[SUBJECT] == ["one", "fox", "two", "one"]
    assert strip(data).data == old
    twice = data.replace(b"<rdf:li>two", b"<rdf:li>fox</rdf:li><rdf:li>two", 1)
    assert texts(strip(twice).data)[SUBJECT].count("fox") == 1


@pytest.mark.parametrize(
    ("inner", "persons"),
    [
        ("", []),
        ("\n ", []),
        (ABOUT % "/>", []),
        (ABOUT % "><dc:subject/></rdf:Description>", []),
        (ABOUT % "><dc:subject><rdf:Bag/></dc:subject></rdf:Description>", []),
        (ABOUT % "><dc:subject><rdf:Bag> </rdf:Bag></dc:subject></rdf:Description>", []),
        (ABOUT % "><dc:subject>a &lt; b</dc:subject></rdf:Description>", ["a < b"]),
        (ABOUT % " dc:subject='a &lt; b'/>", ["a < b"]),
        (ABOUT % " dc:subject='a &lt; b' dc:title='t'/>", ["a < b"]),
    ],
)
def test_lists_that_are_no_lists_become_some(inner, persons):
    old = (RDF % inner).encode()
    merged = merge(old, ["fox"])
    assert texts(merged.data)[SUBJECT] == [*persons, "fox"]
    assert Packet(merged.data).keywords().tags == tuple(persons)
    assert merge(merged.data, ["fox"]).data == merged.data
    bare = strip(merged.data).data
    assert texts(bare) == texts(old)
    assert b"prototag" not in bare.replace(b'xmlns:prototag="prototag:ns:1.0/"', b"")
    assert (b"dc:title='t'" in bare) == ("dc:title" in inner)


def test_an_empty_rdf_is_opened():
    old = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>'
    merged = merge(old, ["fox"])
    assert texts(merged.data)[SUBJECT] == ["fox"]
    assert merge(merged.data, ["fox"]).data == merged.data


PROGRAMS = ["digikam", "darktable", "lightroom", "bridge", "prefixes"]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"]
ODD = ["New York, NY", "say \"hi\" 'now'", "👩‍👩‍👧", "<b>&amp;]]>", "x" * 1000, "b/w", "Zoë", "a;b"]


def is_part(part: bytes, whole: bytes) -> bool:
    """Whether one comes from the other by insertions alone."""
    rest = iter(whole)
    return all(byte in rest for byte in part)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_files_of_other_programs_are_merged_without_loss(name, encoding):
    old = golden(name, encoding)
    persons = Packet(old).keywords().tags
    merged = merge(old, ["animal|fox", *ODD])
    assert merged.added == ["animal|fox", *ODD]
    assert is_part(old, merged.data)
    after = Packet(merged.data).keywords()
    assert after.tags == persons
    assert set(after.added) == {"animal|fox", *ODD}
    before, now = texts(old), texts(merged.data)
    for name_, new in (
        (SUBJECT, ["fox", *ODD]),
        (TAGS_LIST, ["animal/fox", *map(with_slashes, ODD)]),
        (HIERARCHICAL, ["animal|fox", *ODD]),
    ):
        copies = [WRITTEN_PROPERTIES[name_](tag) for tag in persons] if not before[name_] else []
        assert now[name_] == before[name_] + copies + new
    assert merge(merged.data, ["animal|fox", *ODD]) == (merged.data, [], [])
    assert strip(merged.data).data == old


def test_a_later_run_updates_what_an_earlier_one_added_and_nothing_else():
    old = golden("digikam")
    first = merge(old, ["fox", "owl", "Cat"])
    assert first.added == ["fox", "owl"] or first.added == ["fox", "owl", "Cat"]
    second = merge(first.data, ["owl", "sky|cloud"])
    assert "fox" in second.removed
    assert second.added == ["sky|cloud"]
    assert Packet(second.data).values(SUBJECT) == ["Cat", "garden", "Zoë & Max", "owl", "cloud"]
    assert merge(second.data, []).data == old
    assert merge(first.data, ["owl"], replace=False).data == first.data


def test_a_person_has_the_tag_already_in_another_case():
    old = golden("lightroom")
    merged = merge(old, ["PIER", "Nature|Coast"])
    assert texts(merged.data)[SUBJECT] == ["coast", "nature", "pier"]
    assert texts(merged.data)[HIERARCHICAL] == ["nature|coast", "pier"]
    assert texts(merged.data)[TAGS_LIST] == ["nature/coast", "pier"]
    assert merged.added == []
    assert strip(merged.data).data == old


def test_a_new_spelling_of_ours_replaces_the_old_one():
    data = merge(merge(golden("lightroom"), ["a|FOX"]).data, ["b|fox"]).data
    assert texts(data)[SUBJECT] == ["coast", "nature", "pier", "fox"]
    assert strip(data).data == golden("lightroom")


def test_a_tag_that_a_person_took_away_is_not_proposed_again():
    data = merge(golden("darktable"), ["fox", "owl"]).data
    edited = data.replace(b"\n     <rdf:li>fox</rdf:li>", b"", 1)
    assert texts(edited)[SUBJECT] == ["lake", "places", "Bavaria", "owl"]
    again = merge(edited, ["fox", "owl"])
    assert (again.added, again.removed) == ([], [])
    assert Packet(again.data).keywords().rejected == ("fox",)
    assert Packet(again.data).keywords().added == ("owl",)
    assert all("fox" not in values for values in texts(again.data).values())
    assert merge(again.data, ["fox", "owl"]).data == again.data
    # The person changes his mind: then it is his.
    theirs = again.data.replace(b"<rdf:li>lake", b"<rdf:li>fox</rdf:li><rdf:li>lake", 1)
    assert "fox" in Packet(merge(theirs, ["fox"]).data).keywords().tags
    assert texts(strip(theirs).data)[SUBJECT][0] == "fox"
    assert strip(again.data).data == golden("darktable")


@pytest.mark.parametrize("program", ["bridge", None])
@pytest.mark.parametrize("whole", [True, False])
def test_a_person_who_took_away_the_only_tag(program, whole):
    old = golden(program) if program else None
    data = merge(old, ["fox"]).data
    first = data.index(b"<dc:subject>" if whole else b"<rdf:li>fox")
    end = b"</dc:subject>" if whole else b"</rdf:li>"
    edited = data[:first] + data[data.index(end) + len(end) :]
    again = merge(edited, []).data
    assert Packet(again).keywords().rejected == ("fox",)
    assert merge(again, ["fox"]) == (again, [], [])
    bare = strip(again).data
    if whole or program is None:
        assert bare == old
    else:
        assert Packet(bare).values(SUBJECT) == []


def test_a_person_who_changes_the_case_makes_the_tag_his():
    data = merge(golden("darktable"), ["fox"]).data.replace(b"<rdf:li>fox<", b"<rdf:li>Fox<", 1)
    again = merge(data, ["fox"])
    assert texts(again.data)[SUBJECT] == ["lake", "places", "Bavaria", "Fox"]
    assert texts(strip(again.data).data)[SUBJECT] == ["lake", "places", "Bavaria", "Fox"]


def test_of_two_equal_entries_one_is_the_persons():
    data = merge(golden("darktable"), ["fox"]).data
    both = data.replace(b"<rdf:li>lake", b"<rdf:li>fox</rdf:li><rdf:li>lake", 1)
    assert Packet(both).keywords().tags[-1] == "fox"
    assert texts(strip(both).data)[SUBJECT] == ["fox", "lake", "places", "Bavaria"]


def test_a_file_that_another_program_rewrote_is_still_parsed():
    """One description, reordered, other prefixes: as exiv2 leaves it."""
    ours = merge(golden("bridge"), ["animal|fox", "owl"]).data.decode()
    bags = {
        "dc:subject": ["owl", "own", "fox"],
        "pt:added": ["owl", "animal|fox"],
        "k:TagsList": ["owl", "animal/fox"],
        "lr:hierarchicalSubject": ["animal|fox", "owl"],
    }
    inner = "".join(
        f"<{name}><rdf:Bag>{''.join(f'<rdf:li>{t}</rdf:li>' for t in items)}</rdf:Bag></{name}>"
        for name, items in bags.items()
    )
    head, _, rest = ours.partition("<rdf:Description")
    tail = rest[rest.index("</rdf:RDF>") :]
    written = (
        f'{head}<rdf:Description rdf:about="uuid:a&amp;b" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:pt="prototag:ns:1.0/" '
        'xmlns:k="http://www.digikam.org/ns/1.0/" xmlns:lr="http://ns.adobe.com/lightroom/1.0/" '
        f'xmp:Rating="3">{inner}</rdf:Description>{tail}'
    ).encode()
    assert Packet(written).keywords().tags == ("own",)
    again = merge(written, ["animal|fox", "owl"]).data
    assert texts(again)[SUBJECT] == ["owl", "own", "fox"]
    assert merge(again, ["animal|fox", "owl"]).data == again
    bare = strip(again).data
    assert texts(bare) == {SUBJECT: ["own"], TAGS_LIST: [], HIERARCHICAL: []}
    assert b"prototag" not in bare.replace(b'xmlns:pt="prototag:ns:1.0/"', b"")
    assert b'xmp:Rating="3"' in bare


def test_a_new_packet_leaves_nothing_behind():
    data = merge(None, ["fox"]).data
    assert strip(data).data is None
    assert merge(data, []).data is None
    assert merge(None, []).data is None
    rated = data.replace(b"<dc:subject>", b"<dc:title>t</dc:title><dc:subject>")
    assert b"<dc:title>t</dc:title>" in strip(rated).data
    foreign = data.replace(b"</rdf:RDF>", b'<dc:x xmlns:dc="u"/></rdf:RDF>')
    assert b"<dc:x" in strip(foreign).data


def test_keywords_inside_the_picture_are_repeated_in_a_new_list_alone():
    data = merge(None, ["fox"], inside=["home", "People|Anna"]).data
    assert texts(data)[SUBJECT] == ["home", "Anna", "fox"]
    assert texts(data)[TAGS_LIST] == ["home", "People/Anna", "fox"]
    keywords = Packet(data).keywords()
    assert (keywords.tags, keywords.copied) == ((), ("home", "People|Anna"))
    assert merge(data, ["fox"], inside=["home", "People|Anna"]).data == data
    assert strip(data).data is None
    assert merge(data, [], inside=["home", "People|Anna"]).data is None
    other = merge(golden("lightroom"), ["fox", "home"], inside=["home", "x"]).data
    assert texts(other)[SUBJECT] == ["coast", "nature", "pier", "fox", "home"]
    assert set(Packet(other).keywords().copied) == {"home", "nature|coast", "pier", "x"}
    assert len(texts(other)[TAGS_LIST]) == 5
    assert merge(other, ["fox", "home"], inside=["home", "x"]).data == other


def test_a_new_list_copies_the_tags_of_a_person_in_another():
    """Otherwise digiKam, which reads its own list first, would show ours alone."""
    data = merge(golden("lightroom"), ["fox"]).data
    assert texts(data)[TAGS_LIST] == ["nature/coast", "pier", "fox"]
    keywords = Packet(data).keywords()
    assert (keywords.tags, keywords.added) == (("nature|coast", "pier"), ("fox",))
    # The person takes one away with a program that does not know digiKam's list, and adds one.
    for old, new in ((b"<rdf:li>pier", b"<rdf:li>boat"),) * 2:
        data = data.replace(old, new, 1)
    assert Packet(data).keywords().tags == ("nature|coast", "boat")
    data = merge(data, ["fox"]).data
    assert sorted(texts(data)[TAGS_LIST]) == ["boat", "fox", "nature/coast"]
    assert Packet(data).keywords().tags == ("nature|coast", "boat")
    assert merge(golden("lightroom"), []).data == golden("lightroom")


def test_some_tags_can_be_removed_or_kept():
    old = golden("lightroom")
    data = merge(old, ["fox", "owl"]).data
    some = strip(data, ["FOX"])
    assert some.removed == ["fox"]
    assert Packet(some.data).keywords().added == ("owl",)
    mine = strip(data, ["fox"], keep=True).data
    assert Packet(mine).keywords().added == ("owl",)
    assert "fox" in Packet(mine).keywords().tags
    kept = strip(data, keep=True)
    assert kept.removed == []
    assert set(Packet(kept.data).keywords().tags) >= {"fox", "owl"}
    assert b"prototag" not in kept.data.replace(b'xmlns:prototag="prototag:ns:1.0/"', b"")


def test_broken_packets_are_refused():
    whole = golden("digikam")
    for cut in range(0, len(whole) - 60, 97):
        with pytest.raises(MetadataError):
            merge(whole[:cut], ["fox"])


names = st.text(min_size=1, max_size=12) | st.sampled_from(["cat", "Cat", "a|b", "a|c", "b", *ODD])
lists = st.lists(names, max_size=6)


@settings(max_examples=80, deadline=None)
@given(
    program=st.sampled_from([*PROGRAMS, None]),
    encoding=st.sampled_from(ENCODINGS),
    runs=st.lists(st.tuples(lists, st.booleans()), min_size=1, max_size=4),
    inside=lists,
)
def test_laws_of_any_sequence_of_runs(program, encoding, runs, inside):
    old = golden(program, encoding) if program else None
    inside = unique(inside)
    persons = texts(old) if old else {SUBJECT: [], TAGS_LIST: [], HIERARCHICAL: []}
    data = old
    for tags, replace in runs:
        data = merge(data, tags, inside=inside, replace=replace).data
        again = merge(data, tags, inside=inside, replace=replace)
        assert again == (data, [], [])
        if data is None:
            assert not unique(tags)
            continue
        now = texts(data)
        for name, before in persons.items():
            assert now[name][: len(before)] == before
        have = {key(text) for text in now[SUBJECT]}
        assert {key(leaf(clean(tag))) for tag in tags if clean(tag)} <= have
        assert Packet(data).keywords().tags == (Packet(old).keywords().tags if old else ())
    if data is not None:
        assert strip(data).data == old


def test_thousands_of_marks_are_distinguished_in_one_pass():
    """Not by comparing each with each, which would take this test minutes."""
    tags = [f"a|tag {number}" for number in range(5000)]
    whole = merge(None, tags)
    assert whole.added == tags
    half = strip(whole.data, [f"tag {number}" for number in range(0, 5000, 2)])
    assert half.removed == tags[::2]
    assert list(Packet(half.data).keywords().added) == tags[1::2]
    assert strip(half.data).data is None
    single = b"".join(
        f'<rdf:Description xmlns:dc="{SUBJECT[0]}" dc:subject="tag {number}"/>'.encode()
        for number in range(2000)
    )
    merged = merge(whole.data.replace(b"</rdf:RDF>", single + b"</rdf:RDF>"), tags[:3])
    assert merged.removed == tags[3:]
