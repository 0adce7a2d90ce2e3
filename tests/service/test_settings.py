"""Settings of the library over HTTP."""

from __future__ import annotations


def test_settings_are_changed_one_by_one(served, library):
    client = served(library=library, annotator=None)
    before = client.get("/api/v1/settings").json()
    assert before["file_types"] == before["all_file_types"]
    assert before["precision"] is None
    assert before["language"] is None
    changed = client.post("/api/v1/settings", json={"precision": 0.9, "language": "de"}).json()
    assert changed == {**before, "precision": 0.9, "language": "de"}
    assert library.preferences().precision == 0.9
    again = client.post("/api/v1/settings", json={"precision": 0, "language": ""}).json()
    assert again == before
    inside = client.post("/api/v1/settings", json={"write_places": {"jpeg": "file", "iptc": True}})
    assert inside.json()["write_places"] == {
        "jpeg": "file", "raw": "sidecar", "other": "sidecar", "iptc": True,
    }  # fmt: skip
    types = client.post("/api/v1/settings", json={"file_types": ["JPEG"], "sources": ["xmp"]})
    assert types.json()["file_types"] == library.preferences().file_types == ["JPEG"]
    assert types.json()["sources"] == ["xmp"]


def test_what_is_not_allowed_is_said(served, library):
    client = served(library=library, annotator=None)
    for body, words in (
        ({"precision": 0.2}, "from 0.5 to 0.99"),
        ({"language": "tlh"}, "give one of"),
        ({"file_types": ["paper"]}, "JPEG"),
        ({"sources": ["dreams"]}, "xmp"),
        ({"write_places": {"raw": "file"}}, "sidecar"),
    ):
        answer = client.post("/api/v1/settings", json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert words in answer.json()["detail"]
