// The library: search, facets and a virtual grid; select pictures and tag or untag them together.

import { get } from "../api.js";
import { captureWords, filtersOf, isFiltered, removable, requestOf } from "../filters.js";
import { searchBar } from "../search_bar.js";
import { fillTimeline } from "../timeline.js";
import { button, count, h, readable } from "../dom.js";
import { go } from "../app.js";
import { showError, showMessage } from "../toast.js";
import { decide, undo } from "../decisions.js";
import { tagField } from "../autocomplete.js";
import { fillFacets } from "../facets.js";
import { virtualGrid } from "../grid.js";
import { view, invalidate } from "../picture_prefetch.js";
import { dragSelect } from "../drag_select.js";
import { savePictureList } from "../picture_list.js";
import { sizeSlider } from "../picture_size.js";
import { openViewer } from "../viewer.js";
import { setRow, setSelection } from "../navigation.js";
import { jobEvents } from "../job_progress.js";
import { measurePaint } from "../perf.js";
import * as keys from "../keyboard.js";

const MAX_PICTURES = 1_000_000; // of a search, a limit of the service
const MAX_WRITTEN = 1000; // selected pictures whose tags are written, another limit
let last = null; // cursor at the last opened picture, for returning to it

export async function open(main, { params }) {
  const mark = params.get("mark"); // new tag for which pictures are selected
  let grid = null;
  const chosen = filtersOf(params);
  let counts = null; // facets within the filter
  const bar = searchBar(chosen, { choose, leave: () => grid.move(grid.cursor), facets: () => counts });
  const search = bar.input;
  const timeline = h("div", { class: "timeline", hidden: true });
  const found = h("p", { class: "muted found", "aria-live": "polite" }, "Searching…");
  const filters = h("div", { class: "filters" });
  const side = h("div", { class: "side-lists" });
  const scroller = h("div", { class: "scroller" });
  const caption = h("p", { class: "caption muted" });
  const input = h("input", { placeholder: "Tag", "aria-label": "Tag for the selected pictures", autocomplete: "off", maxlength: 500 });
  const chosenWords = h("span", { class: "doing" });
  const tagging = h("form", { class: "actions-bar tagging", hidden: true, onsubmit: (event) => { event.preventDefault(); tagAll("accepted"); } },
    chosenWords, mark === null ? tagField(input) : null,
    mark === null ? h("button", { type: "submit", class: "main" }, "Add tag") : h("button", { type: "submit", class: "main" }, `Tag as ${readable(mark)}`, " ", h("kbd", { "aria-hidden": "true" }, "⏎")),
    mark === null ? button("Remove tag", "", () => tagAll("rejected")) : null,
    button("Large", "o", () => openLarge()),
    mark === null ? [button("Save list", "", () => savePictureList([...selected]), { title: "Save paths and tags of the selected pictures as JSON lines" }), button("Write tags…", "", writeSelected)] : null,
    button("Clear selection", "Esc", () => clear()));
  const size = sizeSlider("library", (width) => { if (width === null) scroller.style.removeProperty("--cell"); else scroller.style.setProperty("--cell", width); grid?.measure(); }, () => grid?.cellWidth ?? 150);
  main.classList.add("fixed");
  main.append(h("div", { class: "library" },
    h("details", { class: "side", open: matchMedia("(min-width: 60rem)").matches }, h("summary", {}, "Filters"), side),
    h("div", { class: "content" }, h("h1", { class: "unseen" }, "Library"),
      mark === null ? null : h("p", { class: "notice" }, `New tag: select a few pictures for “${readable(mark)}” with the space bar, then press Enter. Start with about five.`),
      h("div", { class: "tools" }, bar.field, bar.order, bar.save, found, filters, size.slider), timeline, scroller, caption, tagging)));

  let numbers = [];
  const selected = new Set();
  let anchor = 0;
  let follows = false; // whether a plain click made the selection, which then follows the cursor
  let viewer = null;
  grid = virtualGrid(scroller, {
    decorate(element, place) {
      const is = selected.has(numbers[place]);
      element.classList.toggle("selected", is);
      element.setAttribute("aria-selected", String(is));
    },
    onopen: openAt,
    onenlarge: (place) => openLarge(place),
    onmove(place, how = {}) {
      if (how.range) range(place, how.add);
      else {
        anchor = place;
        const picks = how.add || (how.click && (mark !== null || (how.isTouch && selected.size)));
        if (picks) toggle(place);
        else if (how.click && how.isTouch) return openLarge(place);
        else if (how.click || follows) only(place);
      }
      describe(place);
    },
  });
  let banded = new Set(); // selected before the rectangle
  const stopDragging = dragSelect(scroller, grid.room, {
    hit: grid.hit,
    band(places, { add, ended }) {
      const found = places.map((place) => numbers[place]);
      selected.clear();
      for (const number of add || mark !== null ? [...banded, ...found] : found) selected.add(number);
      follows = false;
      if (ended) {
        banded = new Set(selected);
        if (places.length) { anchor = places[0]; grid.move(places[0], { quiet: true }); }
      }
      chosenChanged();
    },
    dragged: ({ target }) => (mark === null && target.closest(".selected") ? count(selected.size, "picture") : null),
    drop: ({ dataset }) => tagAll("accepted", dataset.dropTag),
  });

  // -- searching -------------------------------------------------------------------------------------

  async function load() {
    const { pictures, n_matches: matches } = await get("/search", { limit: MAX_PICTURES, ...requestOf(chosen) });
    numbers = pictures;
    grid.set(numbers);
    const looks = pictures.length - matches;
    found.textContent = looks ? `${count(matches, "match", "matches")}, then ${looks.toLocaleString("en")} that look like it` : count(matches, "picture");
    filters.replaceChildren(...removable(chosen).map(([name, without]) => h("button", { type: "button", class: "filter", "aria-label": `Remove the filter ${name}`, onclick: () => choose(without) }, name, " ✕")));
    scroller.classList.toggle("empty", !numbers.length);
    scroller.dataset.empty = isFiltered(chosen) ? "No picture matches. Remove a filter, or search by other words." : "No pictures yet.";
    measurePaint("library");
  }
  async function showFacets() {
    counts = await fillFacets(side, chosen, choose);
    fillTimeline(timeline, counts, chosen, choose);
  }
  /** Apply changed filters, or the address of a saved search. */
  function choose(changes, address) {
    if (address !== undefined) return go(`/library?${address}`);
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...chosen, text: search.value.trim(), mark, ...changes })) {
      for (const one of Array.isArray(value) ? value : [value]) if (one) asked.append(name, one);
    }
    return go(`/library${asked.size ? `?${asked}` : ""}`, { replace: true });
  }
  async function describe(place) {
    const number = numbers[place];
    const one = await view(number);
    if (numbers[grid.cursor] !== number) return;
    const name = (one.files[0] ?? "").split(/[/\\]/).pop();
    caption.textContent = [`${name}: ${one.tags.map(readable).join(", ") || "no tags"}`, ...captureWords(one.capture)].join(" · ");
  }

  // -- selecting ------------------------------------------------------------------------------------

  function toggle(place) {
    const number = numbers[place];
    if (!selected.delete(number)) selected.add(number);
    follows = false;
    chosenChanged();
  }
  function only(place) {
    selected.clear();
    selected.add(numbers[place]);
    follows = true;
    chosenChanged();
  }
  function range(to, add) {
    const [low, high] = [Math.min(anchor, to), Math.max(anchor, to)];
    if (!add && mark === null) selected.clear();
    follows = false;
    for (const number of numbers.slice(low, high + 1)) selected.add(number);
    chosenChanged();
  }
  function clear() {
    selected.clear();
    follows = false;
    chosenChanged();
    grid.move(grid.cursor);
  }
  function chosenChanged() {
    grid.redraw();
    tagging.hidden = !selected.size;
    chosenWords.textContent = `${selected.size.toLocaleString("en")} selected`;
    viewer?.refresh();
  }
  async function tagAll(verdict, tag = mark ?? input.value.trim()) {
    if (!selected.size) return;
    if (!tag) return void input.focus();
    const pictures = [...selected];
    const shown = (words) => () => {
      pictures.forEach(invalidate);
      if (words) showMessage(words, { action: "Undo", run: () => void undo() });
    };
    const what = verdict === "accepted" ? "added to" : "removed from";
    const done = decide(pictures.map((picture) => ({ picture, tag, verdict })), shown(`“${readable(tag)}” ${what} ${count(pictures.length, "picture")}.`), shown());
    if (mark !== null) {
      await done;
      return go(`/review?tag=${encodeURIComponent(mark)}`);
    }
    input.value = "";
    done.then(() => { describe(grid.cursor); return showFacets(); }).catch(showError);
  }
  function openAt(place) {
    if (!numbers.length) return;
    last = { at: location.search, place };
    setRow(numbers, location.pathname + location.search, "Library");
    go(`/picture/${numbers[place]}`);
  }

  function writeSelected() {
    if (selected.size > MAX_WRITTEN) return showMessage(`Select at most ${MAX_WRITTEN.toLocaleString("en")} pictures, or write all under Training.`);
    setSelection([...selected]);
    go("/training?selection");
  }
  /** Open a picture large, or compare the two to four selected ones. */
  function openLarge(place = grid.cursor) {
    if (!numbers.length || viewer) return;
    const compared = selected.size > 1 && selected.size <= 4 && selected.has(numbers[place]) ? numbers.filter((number) => selected.has(number)) : null;
    const shown = compared ?? numbers;
    viewer = openViewer(main, {
      count: () => shown.length,
      at: shown.indexOf(numbers[place]),
      panes: compared?.length ?? 1,
      item: (i) => {
        const asked = view(shown[i]);
        asked.then(() => {}, () => {});
        const { now } = asked;
        if (!now) asked.then(() => viewer?.refresh(), () => {});
        return { picture: shown[i], name: (now?.files[0] ?? "").split(/[/\\]/).pop(), verdict: mark !== null && selected.has(shown[i]) ? "accepted" : null, facts: now?.tags.map(readable).join(", ") };
      },
      question: mark === null ? null : { title: `${readable(mark)}?`, accept: "Select", reject: "Do not select", answer: (i, verdict) => {
        if (verdict === "accepted") selected.add(shown[i]);
        else selected.delete(shown[i]);
        chosenChanged();
      } },
      more: (i) => openAt(numbers.indexOf(shown[i])),
      closed: (i) => { viewer = null; if (main.isConnected && grid.room.isConnected) grid.move(numbers.indexOf(shown[i])); },
    });
  }

  const step = (by, range) => { const to = grid.cursor + by; if (to >= 0 && to < numbers.length) grid.move(to, { range }); };
  const steps = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: () => -grid.columns, ArrowDown: () => grid.columns };
  const arrows = Object.keys(steps);
  input.addEventListener("keydown", (event) => { if (event.key === "Escape") grid.move(grid.cursor); });
  keys.use("Library", [
    { keys: arrows, repeats: true, words: "Move", run: ({ key }) => step(steps[key]()) },
    { keys: arrows.map((key) => `Shift+${key}`), shown: ["Shift+ArrowRight"], repeats: true, words: "Select several", run: ({ key }) => step(steps[key](), true) },
    { keys: ["Home"], run: () => grid.move(0) },
    { keys: ["End"], run: () => grid.move(numbers.length - 1) },
    { keys: ["PageDown"], repeats: true, run: () => step(grid.page) },
    { keys: ["PageUp"], repeats: true, run: () => step(-grid.page) },
    { keys: [" "], words: "Select or deselect", run: () => { anchor = grid.cursor; toggle(grid.cursor); } },
    { keys: ["Ctrl+a"], words: "Select all matching pictures", run: () => { for (const number of numbers) selected.add(number); chosenChanged(); } },
    { keys: ["t"], words: "Tag the selection", run: () => { if (mark !== null) return; if (!selected.size) toggle(grid.cursor); input.focus(); } },
    { keys: ["Enter"], words: mark === null ? "Open the picture with its tags" : "Tag the selection", run: () => (mark === null ? openAt(grid.cursor) : void tagAll("accepted")) },
    { keys: ["o"], words: "Open large, or compare the selected pictures", run: () => openLarge() },
    ...size.bindings,
    { keys: ["/"], words: "Search", run: () => search.focus() },
    { keys: ["m"], words: "More like this picture", run: () => void (numbers.length && choose({ like: numbers[grid.cursor], text: null, order: null })) },
    { keys: ["Escape"], words: "Clear the selection", run: () => clear() },
  ]);

  const onJob = ({ detail }) => { if (detail.kind === "scan" && !selected.size) soon(); };
  let waiting = null;
  const soon = () => { waiting ??= setTimeout(() => { waiting = null; load().catch(showError); showFacets().catch(() => {}); }, 2000); };
  jobEvents.addEventListener("job", onJob);
  size.start();
  await load();
  showFacets().catch(showError);
  if (numbers.length) grid.move(last?.at === location.search ? last.place : 0);
  return () => { jobEvents.removeEventListener("job", onJob); clearTimeout(waiting); stopDragging(); grid.close(); };
}
