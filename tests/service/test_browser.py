"""The whole way in a real browser, by keyboard alone: `make test-browser`."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import tagged

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make test-browser installs it"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium here", allow_module_level=True)
AXE = Path(__file__).parents[2] / ".axe" / "package" / "axe.min.js"
SCREENS = (
    "/",
    "/review?tag=red",
    "/review?queue=likely_wrong",
    "/picture/3",
    "/library",
    "/training",
    "/settings",
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Sixty pictures with tags, sixty without."""
    folder = tmp_path_factory.mktemp("browser") / "photos"
    tagged.collection(folder, 60)
    tagged.collection(folder, 60, start=60, listed=False)
    return folder


@pytest.fixture(scope="module")
def address(photos):
    """`prototag open` of them."""
    command = [sys.executable, "-m", "prototag", "open", photos, "--no-browser"]
    command += ["--cache", photos.parent / "vectors"]
    process = subprocess.Popen(
        [str(part) for part in command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    said = ""
    while "http://" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    yield said[said.index("http://") :].split()[0].rstrip("/")
    process.terminate()
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, address):
    """A page that fails the test if a script fails, or asks another host for anything."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, base_url=address)
    page = context.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    page.on(
        "request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url)
    )
    yield page
    context.close()
    assert not wrong


def is_wrong(said):
    return said.type == "error" and not said.text.startswith("Failed to load resource")


def ask(address, path):
    with urllib.request.urlopen(f"{address}/api/v1{path}") as answer:
        return json.load(answer)


def tag(address, name):
    return next((one for one in ask(address, "/tags")["tags"] if one["name"] == name), None)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def settle(page):
    """Wait until all that was decided has reached the service."""
    page.evaluate("import('/static/decisions.js').then((made) => made.allSent())")


def test_the_whole_way_by_keyboard(page, photos, address):
    page.goto("/")
    page.get_by_role("button", name="Train now").wait_for(timeout=120_000)
    press(page, "l")
    page.locator(".tags .suggestion-count").first.wait_for(timeout=120_000)
    assert ask(address, "/library")["model"]["number"] == 1

    # Three batches: reject one, accept one, then the rest.
    for batch in range(3):
        if batch:
            press(page, "Escape")
            page.locator(".tags tr:focus").wait_for()
            press(page, *["ArrowDown"] * batch)
        name = page.locator("tr:focus th bdi").inner_text()
        before = tag(address, name)
        press(page, "Enter")
        page.locator(".batch [role=option]:focus").wait_for()
        press(page, "x", "a")
        assert page.locator(".batch .no").count() == 1
        assert page.locator(".batch .yes").count() == 1
        first = page.locator(".batch [role=option]").first.get_attribute("aria-label")
        assert first.endswith("rejected")
        press(page, "]", "]")
        seen(page)
        press(page, "Enter")
        page.locator(".batch .yes").first.wait_for(state="detached")
        settle(page)
        after = tag(address, name)
        assert after["rejected"] > before["rejected"]
        assert after["accepted"] > before["accepted"]  # the one, and those above the threshold

    # A no is for ever: what was refused is on no batch of its tag any more.
    decided = ask(address, "/history?limit=1000")["decisions"]
    refused = [one for one in decided if one["verdict"] == "rejected"]
    assert refused
    for one in refused:
        view = ask(address, f"/pictures/{one['picture']}")
        assert one["tag"] in view["rejected"]
        assert one["tag"] not in [other["tag"] for other in view["suggestions"]]

    # A new tag: five pictures, then its own batch.
    press(page, "Escape", "n")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("holiday|beach")
    press(page, "Enter")
    page.locator(".batch [role=option]:focus").wait_for()  # ranked by the name
    page.goto("/library?mark=holiday%7Cbeach")
    page.locator(".virtual [role=option]:focus").wait_for()
    for _ in range(5):
        press(page, " ", "ArrowRight")
    press(page, "Enter")
    page.locator(".batch [role=option]:focus").wait_for()
    assert tag(address, "holiday|beach")["pictures"] == 5
    press(page, "a")
    settle(page)
    many = tag(address, "holiday|beach")["pictures"]
    assert many > 5
    press(page, "z")
    settle(page)
    assert tag(address, "holiday|beach")["pictures"] == 5
    assert page.locator(".batch .yes").count() == 0

    # Write, after a look at what would be written.
    press(page, "g", "h")
    page.get_by_role("heading", name="Training and history").wait_for()
    press(page, "w")
    page.get_by_role("button", name="sidecar").wait_for(timeout=60_000)
    assert not [*photos.glob("*.xmp")]
    press(page, "Enter")
    page.get_by_text("All accepted tags are in files").wait_for(timeout=60_000)
    written = [*photos.glob("*.xmp")]
    assert len(written) >= 5
    if shutil.which("exiftool") is None:
        pytest.skip("there is no exiftool here to judge the sidecars")
    command = ["exiftool", "-j", "-Subject", "-HierarchicalSubject", *written]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert sum("holiday|beach" in str(one.get("HierarchicalSubject")) for one in told) == 5
    assert all(one.get("Subject") for one in told)
    assert ask(address, "/library")["unwritten"] == 0


def test_one_picture_by_keyboard(page, address):
    page.goto("/picture/70")
    page.locator(".stage img").wait_for()
    rows = page.locator(".suggestions li .name")
    if rows.count():
        first = page.locator(".suggestions li .name bdi").first.inner_text()
        press(page, "1")
        settle(page)
        assert first in ask(address, "/pictures/70")["tags"]
        press(page, "z")
        settle(page)
        assert first not in ask(address, "/pictures/70")["tags"]
    before = ask(address, "/pictures/70")
    name = next(one for one in tagged.TAGS if one not in before["tags"] + before["rejected"])
    press(page, "t")
    page.keyboard.type(name[:3])
    page.get_by_role("option", name=name).wait_for()
    press(page, "ArrowDown", "Enter")
    settle(page)
    assert name in ask(address, "/pictures/70")["accepted"]
    press(page, "Escape", "c")
    settle(page)
    assert ask(address, "/pictures/70")["complete"]
    press(page, "z", "z")
    settle(page)
    after = ask(address, "/pictures/70")
    assert not after["complete"]
    assert after["tags"] == before["tags"]
    press(page, "ArrowRight")
    page.wait_for_url("**/picture/71")


def test_a_refused_decision_is_reported_and_reverted(page):
    page.goto("/review?tag=red")
    page.locator("[role=option]:focus").wait_for()
    page.route("**/api/v1/decisions", lambda route: route.abort())
    press(page, "x")
    page.get_by_role("alert").wait_for()
    assert "does not respond" in page.get_by_role("alert").inner_text()
    assert page.locator(".batch .no").count() == 0
    page.unroute("**/api/v1/decisions")


def history(address):
    return ask(address, "/history?limit=1000")["decisions"]


def small_batches(page, size=6):
    """Sheets of the real service, but of few pictures, so that there are several of them."""
    page.route(
        "**/api/v1/review-batch",
        lambda route: route.continue_(
            post_data=json.dumps({**route.request.post_data_json, "limit": size})
        ),
    )


def seen(page):
    """Wait until a batch was shown long enough to be accepted."""
    page.locator(".actions-bar .main:enabled").wait_for()


def ticked(page):
    """Count the pictures above the threshold, and return the percentage of each picture."""
    shares = page.locator(".batch .foot").evaluate_all("all => all.map((one) => one.dataset.share)")
    return page.locator(".batch .certain").count(), [float(one.rstrip("%")) for one in shares]


FALLING = """(() => {
  let fewer = 0;
  const real = window.fetch;
  window.fetch = async (...asked) => {
    const answer = await real(...asked);
    if (!String(asked[0]).endsWith("/review-batch")) return answer;
    const batch = await answer.json();
    batch.threshold = 0.5;
    for (const cell of batch.cells) cell.probability = 0.99 - 0.01 * fewer++;
    return new Response(JSON.stringify(batch), { headers: { "Content-Type": "application/json" } });
  };
})()"""


def test_only_a_person_moves_the_line(page):
    small_batches(page)
    page.add_init_script(FALLING)  # the test's pictures are too easy: all are at 100%
    page.goto("/review?tag=striped")
    for number in range(4):
        seen(page)
        certain, shares = ticked(page)
        assert certain == len(shares) == 6, number
        if number < 3:
            picture = page.locator(".batch img").first
            address = picture.get_attribute("src")
            press(page, "Enter")
            sync_api.expect(picture).not_to_have_attribute("src", address)
    press(page, "[", "[")
    assert ticked(page)[0] == 4
    press(page, "]")
    assert ticked(page)[0] == 5
    settle(page)


def test_a_held_enter_accepts_no_batch_that_nobody_saw(page, address):
    small_batches(page)
    page.goto("/")
    page.locator(".tags tr:focus").wait_for()
    page.locator("tr", has_text="dotted").first.focus()
    before = len(history(address))
    for _ in range(15):  # which opens the batch, and does nothing there
        page.keyboard.down("Enter")
        page.wait_for_timeout(30)
    page.locator(".batch [role=option]:focus").wait_for()
    seen(page)
    page.keyboard.down("Enter")
    settle(page)
    assert len(history(address)) == before
    page.keyboard.up("Enter")

    for key, most in (("Enter", 6), ("x", 1), ("a", 1)):
        seen(page)
        for _ in range(40):
            page.keyboard.down(key)
            page.wait_for_timeout(30)
        page.keyboard.up(key)
        settle(page)
        after = len(history(address))
        assert after - before <= most, key
        before = after

    seen(page)
    press(page, "Enter", "Enter", "Enter")  # nobody sees a batch in so short a time
    settle(page)
    assert len(history(address)) - before <= 6


def test_a_click_selects_and_decides_nothing(page, address):
    page.goto("/review?tag=blue")
    page.locator(".batch [role=option]:focus").wait_for()
    before = len(history(address))
    cell = page.locator(".batch [role=option]").nth(3)
    cell.click()
    sync_api.expect(cell).to_be_focused()
    page.locator(".batch [role=option]").nth(5).click(modifiers=["Shift"])
    assert page.locator(".batch .selected").count() == 3
    page.locator(".batch [role=option]").nth(2).click()
    assert page.locator(".batch .selected").count() == 0
    settle(page)
    assert len(history(address)) == before
    page.get_by_role("button", name="Reject").click()
    settle(page)
    assert len(history(address)) == before + 1
    assert (
        page.locator(".batch [role=option]").nth(2).get_attribute("aria-label").endswith("rejected")
    )

    page.locator(".batch [role=option]").nth(4).dblclick()
    page.get_by_role("dialog", name="Large picture").wait_for()
    press(page, "t")
    page.wait_for_url("**/picture/*")
    settle(page)
    assert len(history(address)) == before + 1


def standing(address):
    """Count the decisions that are not undone."""
    return sum(not one["undone"] for one in history(address))


def test_a_selection_of_several_is_decided_together(page, address):
    page.goto("/review?tag=green")
    cells = page.locator(".batch [role=option]")
    page.locator(".batch [role=option]:focus").wait_for()
    before = standing(address)
    cells.nth(0).click()
    cells.nth(2).click(modifiers=["Control"])
    cells.nth(4).click(modifiers=["Control"])
    assert page.locator(".batch .selected").count() == 3
    cells.nth(2).click(modifiers=["Control"])
    assert page.locator(".batch .selected").count() == 2
    press(page, "x")
    settle(page)
    assert standing(address) >= before + 2  # near-duplicates are decided together
    assert page.locator(".batch .no").count() == 2
    press(page, "z", "Escape")
    settle(page)
    assert page.locator(".batch .no").count() == 0
    assert page.locator(".batch .selected").count() == 0

    first, last = cells.nth(8).bounding_box(), cells.nth(10).bounding_box()
    page.mouse.move(first["x"] + 20, first["y"] + 20)
    page.mouse.down()
    page.mouse.move(last["x"] + 20, last["y"] + 30, steps=5)
    page.mouse.up()
    assert page.locator(".batch .selected").count() == 3
    settle(page)
    assert standing(address) == before  # a rectangle decides nothing


def test_a_batch_is_answered_in_large_pictures(page, address):
    page.goto("/review?tag=striped")
    page.locator(".batch [role=option]:focus").wait_for()
    before = standing(address)
    press(page, "ArrowRight", "o")
    viewer = page.get_by_role("dialog", name="Large picture")
    assert viewer.locator("h2").inner_text() == "striped?"
    assert "2 of" in viewer.locator(".place").inner_text()
    press(page, "a", "x", "ArrowLeft", "ArrowLeft")
    settle(page)
    assert standing(address) >= before + 2  # near-duplicates are decided together
    assert viewer.locator(".pane.accepted").count() == 1
    press(page, "z")
    settle(page)
    press(page, "ArrowRight")
    assert viewer.locator(".pane.rejected").count() == 0
    press(page, "ArrowLeft", "Backspace")
    settle(page)
    assert viewer.locator(".pane.accepted").count() == 0

    press(page, "3")
    assert viewer.locator(".pane").count() == 3
    assert viewer.locator(".pane.current").count() == 1
    press(page, "1", "f")
    sync_api.expect(viewer.locator(".frame.zoomed")).to_have_count(1)
    sync_api.expect(viewer.locator(".frame[data-full]")).to_have_count(1)
    shown = viewer.locator(".frame img").evaluate("one => [one.width, one.naturalWidth]")
    assert shown[0] == shown[1]  # one pixel of the picture on one of the screen
    press(page, "Escape")
    assert viewer.locator(".frame.zoomed").count() == 0
    press(page, "Enter")  # accepts nothing that the viewer hides
    press(page, "Escape")
    sync_api.expect(viewer).to_have_count(0)
    sync_api.expect(page.locator(".batch [role=option]").nth(1)).to_be_focused()

    # Two selected pictures are compared.
    press(page, "Shift+ArrowRight", "o")
    assert viewer.locator(".pane").count() == 2
    press(page, "Escape")
    settle(page)


def test_swipes_answer_on_a_phone(chromium, address):
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, base_url=address
    )
    page = context.new_page()
    page.goto("/review?tag=dotted")
    page.locator(".batch [role=option]").nth(3).locator(".enlarge").tap()
    viewer = page.get_by_role("dialog", name="Large picture")
    before = standing(address)
    assert "4 of" in viewer.locator(".place").inner_text()
    swipe(page, 150, 300, 330, 305)
    sync_api.expect(viewer.locator(".place")).to_contain_text("5 of")
    swipe(page, 330, 300, 120, 305)
    sync_api.expect(viewer.locator(".place")).to_contain_text("6 of")
    settle(page)
    decided = history(address)
    assert [one["verdict"] for one in decided[:2]] == ["rejected", "accepted"]
    assert standing(address) >= before + 2  # near-duplicates are decided together
    swipe(page, 200, 300, 205, 500)
    sync_api.expect(viewer).to_have_count(0)
    page.evaluate("import('/static/decisions.js').then(({ undo }) => { undo(); return undo(); })")
    settle(page)
    context.close()


def swipe(page, x, y, to_x, to_y):
    """Move a finger over the screen."""
    session = page.context.new_cdp_session(page)
    session.send(
        "Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
    )
    for step in (0.3, 0.6, 1.0):
        point = {"x": x + step * (to_x - x), "y": y + step * (to_y - y)}
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.detach()


def test_pictures_are_chosen_in_the_library_as_everywhere(page, address):
    page.goto("/library")
    cells = page.locator(".virtual [role=option]")
    page.locator(".virtual [role=option]:focus").wait_for()
    chosen = page.locator(".virtual .selected")
    cells.nth(2).click()
    assert chosen.count() == 1
    cells.nth(5).click()
    assert chosen.count() == 1
    cells.nth(7).click(modifiers=["Shift"])
    assert chosen.count() == 3
    cells.nth(6).click(modifiers=["Control"])
    assert chosen.count() == 2
    assert "2 selected" in page.locator(".tagging").inner_text()

    # Draw a rectangle over two rows, and drag what it selects onto a tag.
    first, last = cells.nth(8).bounding_box(), cells.nth(17).bounding_box()
    page.mouse.move(first["x"] + 30, first["y"] + 30)
    page.mouse.down()
    page.mouse.move(last["x"] + 30, last["y"] + 30, steps=5)
    page.mouse.up()
    count = chosen.count()
    assert count >= 2
    tag_button = page.locator("[data-drop-tag]").first
    name = tag_button.get_attribute("data-drop-tag")
    before = tag(address, name)["accepted"]
    start, target = chosen.first.bounding_box(), tag_button.bounding_box()
    page.mouse.move(start["x"] + 30, start["y"] + 30)
    page.mouse.down()
    page.mouse.move(target["x"] + 15, target["y"] + 5, steps=5)
    page.mouse.up()
    page.get_by_text(f"“{name}” added to").wait_for()
    settle(page)
    changed = tag(address, name)["accepted"] - before
    press(page, "z")
    settle(page)
    assert 0 <= changed <= count
    assert tag(address, name)["accepted"] == before
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save list").click()
    rows = [json.loads(line) for line in Path(saved.value.path()).read_text().splitlines()]
    assert len(rows) == count
    assert all(Path(row["file_name"]).exists() for row in rows)

    page.get_by_role("button", name="Write tags…").click()
    page.get_by_text(f", of {count} selected pictures").wait_for(timeout=60_000)
    press(page, "Escape")
    page.goto("/library")
    page.locator(".virtual [role=option]:focus").wait_for()
    press(page, "Home", "o")
    viewer = page.get_by_role("dialog", name="Large picture")
    press(page, "ArrowRight")
    assert "2 of" in viewer.locator(".place").inner_text()
    press(page, "Escape")
    sync_api.expect(cells.nth(1)).to_be_focused()


def test_settings_are_kept_and_followed(page, address):
    page.goto("/settings")
    page.get_by_label("Theme").select_option("dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(ground) != dark
    page.get_by_label("Precision of preselected pictures").select_option("0.95")
    page.get_by_text("Saved.").first.wait_for()
    assert ask(address, "/settings")["precision"] == 0.95
    page.get_by_label("Precision of preselected pictures").select_option("")
    page.get_by_label("PNG").uncheck()
    page.get_by_text("from the next scan on").first.wait_for()
    assert "PNG" not in ask(address, "/settings")["file_types"]
    page.get_by_label("PNG").check()
    page.get_by_label("Word that is never suggested").fill("nonsense")
    press(page, "Enter")
    page.get_by_role("button", name="Suggest nonsense again").wait_for()
    assert [one["name"] for one in ask(address, "/tags")["tags"] if one["hidden"]] == ["nonsense"]
    page.get_by_role("button", name="Suggest nonsense again").click()
    page.get_by_text("Every tag can be suggested").wait_for()
    assert ask(address, "/settings")["precision"] is None


def test_a_fast_person_is_told_what_the_order_lacks(page):
    small_batches(page)
    page.goto("/review?tag=striped")
    seen(page)
    ranking = page.locator(".ranking")
    assert ranking.is_hidden()
    page.wait_for_timeout(1500)  # the next batch is fetched ahead
    press(page, "[", "[", "[", "[", "[", "[", "[", "]", "]")
    picture = page.locator(".batch img").first.get_attribute("src")
    press(page, "Enter")
    sync_api.expect(page.locator(".batch img").first).not_to_have_attribute("src", picture)
    if ranking.is_visible():  # it was fetched before the two pictures were accepted
        assert "Ranked before your last" in ranking.inner_text()
        press(page, "r")
        sync_api.expect(ranking).to_be_hidden(timeout=20_000)
    settle(page)


def test_pictures_are_sharp_at_every_size(chromium, address):
    context = chromium.new_context(
        viewport={"width": 1280, "height": 800}, device_scale_factor=2, base_url=address
    )
    page = context.new_page()
    page.goto("/review?tag=red")
    page.locator(".batch [role=option]:focus").wait_for()
    wide = page.locator(".batch img").first.bounding_box()["width"]
    for _ in range(5):
        press(page, "+")
    larger = page.locator(".batch img").first
    page.wait_for_function(
        "wide => document.querySelector('.batch img').clientWidth > 1.5 * wide", arg=wide
    )
    sync_api.expect(larger).to_have_attribute("data-side", "1024")
    page.reload()
    page.locator(".batch [role=option]:focus").wait_for()
    assert page.locator(".batch img").first.bounding_box()["width"] > 1.5 * wide
    context.close()


def decided_by(address, picture, verdict="accepted"):
    """Tags of a picture that decisions of people accepted or rejected."""
    return set(ask(address, f"/pictures/{picture}")[verdict])


def add_tag(page, name):
    """Give the picture that is shown a tag."""
    press(page, "t")
    page.keyboard.type(name)
    press(page, "Enter", "Escape")
    settle(page)


@pytest.fixture
def tabs(page):
    """Two tabs of one person."""
    return page, page.context.new_page()


def test_each_tab_undoes_its_own_decisions(tabs, address):
    """The second tab decides last; the first one's undo and redo mean its own decision."""
    first, second = tabs
    for tab in tabs:
        tab.goto("/picture/90")
        tab.locator(".stage img").wait_for()
    before = decided_by(address, 90)
    add_tag(first, "of the first")
    add_tag(second, "of the second")
    press(first, "z")
    settle(first)
    assert decided_by(address, 90) - before == {"of the second"}
    press(first, "z")  # there is no other decision of this tab
    settle(first)
    first.get_by_text("This tab has nothing to undo").wait_for()
    assert decided_by(address, 90) - before == {"of the second"}
    press(first, "Shift+Z")
    settle(first)
    assert decided_by(address, 90) - before == {"of the first", "of the second"}

    # The stack outlives a reload, and is not that of the other tab.
    second.reload()
    second.locator(".stage img").wait_for()
    press(second, "z")
    settle(second)
    assert decided_by(address, 90) - before == {"of the first"}
    press(second, "Control+Shift+Z")
    settle(second)
    assert decided_by(address, 90) - before == {"of the first", "of the second"}

    # What the other tab overrode is refused, and told.
    number = ask(address, "/history?limit=1000")["decisions"]
    batch = next(one["batch"] for one in number if one["tag"] == "of the first")
    reject = {"picture": 90, "tag": "of the first", "verdict": "rejected"}
    second.evaluate(
        "one => import('/static/decisions.js').then((made) => made.decide([one], () => {}, "
        "() => {}))",
        reject,
    )
    press(first, "z")
    first.get_by_role("alert").wait_for()
    assert f"Batch {batch} was overridden" in first.get_by_role("alert").inner_text()
    assert "of the first" in decided_by(address, 90, "rejected")
    press(second, "z")
    settle(second)
    assert decided_by(address, 90) - before == {"of the first", "of the second"}


def test_any_entry_of_the_history_is_undone_and_redone(page, address):
    page.goto("/picture/91")
    page.locator(".stage img").wait_for()
    before = decided_by(address, 91)
    for name in ("one", "two", "three"):
        add_tag(page, name)
    press(page, "g", "h")
    entry = page.locator(".past li", has_text="two accepted")
    entry.get_by_role("button", name="Undo").click()
    entry.get_by_role("button", name="Redo").wait_for()
    assert decided_by(address, 91) - before == {"one", "three"}
    assert "undone" in entry.inner_text()
    press(page, "Shift+Z")
    entry.get_by_role("button", name="Undo").wait_for()
    assert decided_by(address, 91) - before == {"one", "two", "three"}
    entry.get_by_role("button", name="Undo").click()
    entry.get_by_role("button", name="Redo").click()
    entry.get_by_role("button", name="Undo").wait_for()
    assert decided_by(address, 91) - before == {"one", "two", "three"}
    press(page, "z", "z", "z")
    settle(page)
    assert decided_by(address, 91) == before


def test_two_tabs_decide_and_undo_at_random(tabs, address):
    """Each tab has what its own stack says, whatever the other did meanwhile."""
    rng = random.Random(5)
    wanted, stacks, undone = {0: set(), 1: set()}, {0: [], 1: []}, {0: [], 1: []}
    for tab in tabs:
        tab.goto("/picture/92")
        tab.locator(".stage img").wait_for()
    before = decided_by(address, 92)
    for step in range(200):
        number = rng.randrange(2)
        tab, action = tabs[number], rng.choice(["decide", "decide", "z", "Shift+Z"])
        if action == "decide":
            name = f"tab {number} step {step}"
            add_tag(tab, name)
            stacks[number].append(name)
            undone[number] = []
            wanted[number].add(name)
            continue
        press(tab, action)
        settle(tab)
        source, target = (stacks, undone) if action == "z" else (undone, stacks)
        if source[number]:
            name = source[number].pop()
            target[number].append(name)
            wanted[number] ^= {name}
        assert decided_by(address, 92) - before == wanted[0] | wanted[1]
    assert decided_by(address, 92) - before == wanted[0] | wanted[1]


def test_help_lists_the_keys(page):
    page.goto("/")
    page.locator(".tags tr:focus").wait_for()
    press(page, "?")
    assert "New tag" in page.get_by_role("dialog").inner_text()
    press(page, "Escape")
    assert page.get_by_role("dialog").count() == 0
    press(page, "?", "?")
    assert page.get_by_role("dialog").count() == 0


def test_a_curve_tells_how_well_a_tag_is_learned(page, address):
    page.goto("/")
    page.locator(".spark").first.wait_for()
    curves = ask(address, "/curves")["curves"]
    sync_api.expect(page.locator(".spark")).to_have_count(len(curves))
    row = page.locator("tr", has_text="red").first
    row.focus()
    press(page, "c")
    shown = page.get_by_role("dialog")
    assert "Learning curve of “red”" in shown.inner_text()
    shown.get_by_text("As numbers").click()
    points = ask(address, "/curves?tag=red")["curves"][0]["points"]
    assert shown.locator("tbody tr").count() == len(points)
    assert shown.locator("circle").count() == sum(
        1 + (point["precision"] is not None) for point in points
    )
    press(page, "c")
    assert page.get_by_role("dialog").count() == 0
    row.locator(".curve button").click()
    assert page.get_by_role("dialog").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_nobody_is_shut_out(chromium, address, scheme, size):
    if not AXE.exists():
        pytest.skip("axe-core is not here: make test-browser fetches it")
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, base_url=address
    )
    page = context.new_page()
    found = []
    for screen in (*SCREENS, "large", "selected"):
        if screen == "large":
            page.goto("/review?tag=red")
            page.locator(".batch [role=option]:focus").wait_for()
            press(page, "o", "a", "2")
        elif screen == "selected":
            page.goto("/library")
            page.locator(".virtual [role=option]:focus").wait_for()
            press(page, " ", "Shift+ArrowRight")
        else:
            page.goto(screen)
        page.locator("h1").first.wait_for(state="attached")
        page.wait_for_timeout(600)
        page.evaluate(AXE.read_text("utf-8"))
        judged = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            (screen, one["id"], one["nodes"][0]["html"][:150], one["nodes"][0]["failureSummary"])
            for one in judged["violations"]
        ]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
        if screen == "large":
            press(page, "z")
            settle(page)
    context.close()
    assert not found


@pytest.fixture
def untagged(tmp_path):
    """`prototag open` of sixty pictures without any tag: its address."""
    folder = tmp_path / "untagged"
    tagged.collection(folder, 60, listed=False)
    command = [sys.executable, "-m", "prototag", "open", folder, "--no-browser"]
    command += ["--cache", tmp_path / "vectors"]
    process = subprocess.Popen(
        [str(part) for part in command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    said = ""
    while "http://" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    yield said[said.index("http://") :].split()[0].rstrip("/")
    process.terminate()
    process.stderr.close()
    assert process.wait(60) == 0


def test_five_marked_pictures_of_an_untagged_folder_are_a_start(chromium, untagged):
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, base_url=untagged)
    page = context.new_page()
    page.goto("/")
    deadline = time.monotonic() + 120
    while (status := ask(untagged, "/library"))["unread"] or status["pictures"] < 60:
        assert time.monotonic() < deadline, status
        page.wait_for_timeout(200)
    red = {
        one["number"]
        for number in ask(untagged, "/search?limit=1000")["pictures"]
        for one in [ask(untagged, f"/pictures/{number}")]
        if int(Path(one["files"][0]).stem) % 3 == 0
    }
    decide(page, [(number, "red", "accepted") for number in sorted(red)[:5]])

    page.goto("/review?tag=red")
    seen(page)
    sync_api.expect(page.locator(".facts")).to_contain_text(
        "Ranked by similarity. Accept and reject some"
    )
    assert page.locator(".batch .certain").count() == 0
    shares = page.locator(".batch .foot").evaluate_all("all => all.map((one) => one.dataset.share)")
    assert len(shares) == 40
    assert not any(shares)
    sync_api.expect(page.locator(".doing")).to_contain_text("Enter accepts nothing")
    pictures = page.locator(".batch img").evaluate_all(
        "all => all.map((one) => Number(one.src.match(/pictures.(\\d+)/)[1]))"
    )
    assert sum(number in red for number in pictures[:10]) >= 8
    for number in pictures:
        press(page, "a" if number in red else "x")
    settle(page)

    press(page, "Enter")
    sync_api.expect(page.locator(".batch [role=option]")).to_have_count(15)
    sync_api.expect(page.locator(".facts")).not_to_contain_text("Ranked by similarity")
    open_pictures = page.locator(".batch img").evaluate_all(
        "all => all.map((one) => Number(one.src.match(/pictures.(\\d+)/)[1]))"
    )
    line = page.locator(".batch .certain").count()
    assert line <= sum(number in red for number in open_pictures)
    assert tag(untagged, "red")["pictures"] + tag(untagged, "red")["rejected"] == 45
    context.close()


def decide(page, pairs):
    """Decide as other programs do."""
    page.evaluate(
        "(pairs) => import('/static/api.js').then(({ post }) => post('/decisions', "
        "{ decisions: pairs.map(([picture, tag, verdict]) => ({ picture, tag, verdict })) }))",
        pairs,
    )
