// One picture: large view, tags, suggestions, rejected tags, explanation, and similar pictures.

import { get } from "../api.js";
import { button, fetchAhead, find, fullSize, h, percent, readable, thumbnail } from "../dom.js";
import { go } from "../app.js";
import { showError } from "../toast.js";
import { complete, decide } from "../decisions.js";
import { tagField } from "../autocomplete.js";
import { measurePaint } from "../perf.js";
import { reasons } from "../explanation.js";
import { fetchLarge, large, invalidate, view } from "../picture_prefetch.js";
import { currentRow, setRow } from "../navigation.js";
import { captureWords } from "../filters.js";
import { Zoom, zoomGestures } from "../zoom.js";
import { isRunning } from "../job_progress.js";
import * as keys from "../keyboard.js";

const PAUSE_MS = 120; // before large pictures are fetched, so that fast stepping skips them

export async function open(main, { number }) {
  if (!currentRow().pictures.includes(number)) {
    const { pictures } = await get("/search", { limit: 1_000_000 });
    setRow(pictures, "/library", "Library");
  }
  const { pictures, back, title } = currentRow();
  let at = pictures.indexOf(number);
  let one = null; // data of the picture; `rows` are the suggestions, which keep their places when decided
  let chosen = 0;
  let asking = 0;
  let isAsking = false;

  const zoom = new Zoom();
  const stage = h("div", { class: "stage frame" });
  const name = h("h1", {});
  const folder = h("p", { class: "muted folder" });
  const capture = h("p", { class: "muted folder" });
  const own = h("ul", { class: "chips", "aria-label": "Tags" });
  const suggested = h("ul", { class: "suggestions", "aria-label": "Suggested tags" });
  const rejected = h("ul", { class: "chips", "aria-label": "Rejected tags" });
  const input = h("input", { placeholder: "Add a tag", "aria-label": "Add a tag", autocomplete: "off", maxlength: 500 });
  const whole = h("input", { type: "checkbox", id: "whole", onchange: () => setComplete(whole.checked) });
  const whyTitle = h("h2", {}, "Explanation");
  const whyRoom = h("div", {});
  const likeRoom = h("div", {});
  const nothing = (words) => h("li", { class: "muted" }, words);
  main.classList.add("fixed");
  main.append(h("div", { class: "picture" },
    h("section", { class: "large", "aria-label": "Picture" }, stage,
      h("div", { class: "around" }, button("←", "", () => step(-1), { "aria-label": "Previous picture" }),
        h("span", { class: "place" }), button("100%", "f", toggleZoom), button("→", "", () => step(1), { "aria-label": "Next picture" }))),
    h("aside", { class: "panel" },
      h("a", { href: back, class: "up" }, `← ${title}`), name, folder, capture,
      h("h2", {}, "Suggested"), suggested,
      h("h2", {}, "Tags"), own,
      h("form", { class: "add", onsubmit: (event) => { event.preventDefault(); add(); } }, tagField(input), h("button", { type: "submit" }, "Add")),
      h("p", { class: "whole" }, whole, h("label", { for: "whole" }, " Complete: no other tag applies ", h("kbd", { "aria-hidden": "true" }, "c"))),
      h("details", {}, h("summary", {}, "Rejected"), rejected),
      h("section", { class: "why-room" }, whyTitle, whyRoom),
      h("section", {}, h("h2", {}, "Similar"), likeRoom, button("More like this", "m", () => go(`/library?like=${number}`))))));

  // -- showing -------------------------------------------------------------------------------------

  async function show() {
    const mine = (asking += 1);
    number = pictures[at];
    history.replaceState({}, "", `/picture/${number}`);
    const image = large(number) ?? h("img", { src: thumbnail(number), alt: "" });
    delete stage.dataset.full;
    stage.classList.remove("loading");
    stage.replaceChildren(image);
    showZoom();
    find(".place", main).textContent = `${at + 1} of ${pictures.length.toLocaleString("en")}`;
    const asked = view(number);
    const found = asked.now ?? (await asked);
    if (mine !== asking) return;
    take(found);
    measurePaint("picture", image.decode().catch(() => {}));
    likeRoom.replaceChildren();
    const near = [1, 2, 3, 4, 5, 6, -1].map((by) => pictures[at + by]).filter(Boolean);
    near.forEach(view);
    fetchAhead(near.map(thumbnail));
    setTimeout(() => {
      if (mine !== asking) return;
      fetchLarge([number, ...near.slice(0, 3)], arrived);
      alike(mine);
    }, PAUSE_MS);
  }
  function arrived(which) {
    if (which !== number || !large(number) || stage.dataset.full) return;
    large(number).alt = name.textContent;
    stage.replaceChildren(large(number));
    zoom.show(stage);
  }
  function toggleZoom() {
    zoom.toggle(stage);
    showZoom();
  }
  /** Show the zoomed part, and replace the picture by that of full size once it has arrived. */
  function showZoom() {
    zoom.show(stage);
    if (!zoom.isFit) loadFull().catch(() => {});
  }
  async function loadFull() {
    const asked = number;
    if (stage.dataset.full || stage.classList.contains("loading")) return;
    stage.classList.add("loading");
    const image = new Image();
    image.src = fullSize(asked);
    await image.decode().catch(() => {});
    if (asked !== number) return;
    stage.classList.remove("loading");
    if (!image.naturalWidth) return;
    image.alt = name.textContent;
    stage.dataset.full = `${image.naturalWidth}x${image.naturalHeight}`;
    stage.replaceChildren(image);
    zoom.show(stage);
  }
  function take(found) {
    const rows = found.suggestions.slice(0, 9).map(({ tag, probability }) => ({ tag, probability, verdict: null }));
    one = { ...found, tags: [...found.tags], rejected: [...found.rejected], rows };
    chosen = 0;
    const path = (found.files[0] ?? "").split(/[/\\]/);
    name.textContent = path.pop() || `Picture ${number}`;
    folder.textContent = path.slice(-2).join(" / ");
    capture.textContent = captureWords(found.capture).join(" · ");
    find("img", stage).alt = name.textContent;
    whyTitle.hidden = true;
    whyRoom.replaceChildren();
    draw();
  }
  function draw() {
    suggested.replaceChildren(...one.rows.map(suggestion), ...(one.rows.length ? [] : [nothing(one.complete ? "None: the picture is complete." : isRunning("learn") ? "None yet: training is running." : "None that are probable enough.")]));
    const shown = new Set(one.rows.map((row) => row.tag));
    const mine = one.tags.filter((tag) => !shown.has(tag));
    own.replaceChildren(...mine.map(chip), ...(mine.length ? [] : [nothing("None yet.")]));
    const no = one.rejected.filter((tag) => !shown.has(tag));
    rejected.replaceChildren(...no.map(rejectedChip), ...(no.length ? [] : [nothing("None.")]));
    whole.checked = one.complete;
  }
  function suggestion(row, i) {
    const said = { accepted: "yes", rejected: "no" }[row.verdict] ?? "open";
    return h("li", { class: `${said}${i === chosen ? " chosen" : ""}` },
      h("kbd", { "aria-hidden": "true" }, i + 1),
      h("button", { type: "button", class: "name", "aria-pressed": String(row.verdict === "accepted"), onclick: () => set(row, "accepted") },
        h("bdi", {}, readable(row.tag)), " ", h("small", {}, percent(row.probability))),
      h("button", { type: "button", class: "refuse", "aria-pressed": String(row.verdict === "rejected"), "aria-label": `Reject ${row.tag}`, onclick: () => set(row, "rejected") }, "✕"),
      h("button", { type: "button", class: "ask", "aria-label": `Explain ${row.tag}`, onclick: () => { chosen = i; why(); } }, "?"));
  }
  const chip = (tag) => h("li", { class: one.accepted.includes(tag) || one.added?.has(tag) ? "chip here" : "chip" }, h("bdi", {}, readable(tag)),
    h("button", { type: "button", "aria-label": `Remove ${tag}`, onclick: () => remove(tag) }, "✕"));
  const rejectedChip = (tag) => h("li", { class: "chip no" }, h("bdi", {}, readable(tag)),
    h("button", { type: "button", "aria-label": `Clear the decision on ${tag}`, onclick: () => reopen(tag) }, "↺"));

  // -- deciding ------------------------------------------------------------------------------------

  /** Send decisions on this picture, with functions that show and revert them. */
  function change(pairs, apply, revert) {
    const of = one;
    const shown = (work) => () => { work(of); invalidate(of.number); if (of === one) draw(); };
    return decide(pairs.map((pair) => ({ picture: of.number, ...pair })), shown(apply), shown(revert));
  }
  function set(row, verdict) {
    const before = row.verdict;
    const now = before === verdict ? null : verdict;
    change([{ tag: row.tag, verdict: now ?? "cleared" }], () => (row.verdict = now), () => (row.verdict = before));
    measurePaint("decision");
  }
  function remove(tag) {
    const without = (of) => { of.tags = of.tags.filter((name) => name !== tag); of.rejected.push(tag); };
    const withIt = (of) => { of.rejected = of.rejected.filter((name) => name !== tag); of.tags.push(tag); };
    change([{ tag, verdict: "rejected" }], without, withIt);
  }
  function reopen(tag) {
    const without = (of) => (of.rejected = of.rejected.filter((name) => name !== tag));
    change([{ tag, verdict: "cleared" }], without, (of) => of.rejected.push(tag));
  }
  function add() {
    const tag = input.value.trim();
    if (!tag) return;
    input.value = "";
    const row = one.rows.find((other) => other.tag === tag);
    if (row) return set(row, "accepted");
    if (one.tags.includes(tag)) return;
    one.added ??= new Set();
    one.added.add(tag);
    const with_ = (of) => { of.tags.push(tag); of.rejected = of.rejected.filter((name) => name !== tag); };
    change([{ tag, verdict: "accepted" }], with_, (of) => (of.tags = of.tags.filter((name) => name !== tag)));
  }
  function setComplete(is) {
    const of = one;
    const shown = (value) => () => { of.complete = value; invalidate(of.number); if (of === one) draw(); };
    complete(of.number, is, shown(is), shown(!is));
  }

  // -- explanation, similar pictures, keys -------------------------------------------------------------------------------------

  async function why() {
    const tag = one.rows[chosen]?.tag ?? one.tags[0];
    if (!tag) return;
    draw();
    const mine = asking;
    whyTitle.hidden = false;
    whyTitle.textContent = `Why “${readable(tag)}”?`;
    const found = await reasons(number, tag).catch((error) => h("p", { class: "muted" }, error.message));
    if (mine === asking) whyRoom.replaceChildren(found);
  }
  /** Send one request at a time: the first may wait while a large model is loaded. */
  async function alike(mine) {
    if (isAsking) return;
    isAsking = true;
    const { similar } = await get(`/pictures/${number}/similar`, { limit: 12 }).catch(() => ({ similar: [] }));
    isAsking = false;
    if (mine !== asking) return void (main.isConnected && alike(asking));
    likeRoom.replaceChildren(h("ul", { class: "strip" }, ...similar.map((other) => h("li", {},
      h("a", { href: `/picture/${other.picture}`, "aria-label": `Picture ${other.picture}, ${percent(other.similarity)} similar` },
        h("img", { src: thumbnail(other.picture), alt: "" }))))));
  }
  function step(by) {
    const to = at + by;
    if (to < 0 || to >= pictures.length) return;
    at = to;
    show().catch(showError);
  }
  function choose(by) {
    if (!one?.rows.length) return;
    chosen = (chosen + by + one.rows.length) % one.rows.length;
    draw();
  }
  const decideChosen = (verdict) => one?.rows[chosen] && set(one.rows[chosen], verdict);
  const numbered = (event, verdict) => {
    const row = one?.rows[Number(event.code.slice(-1)) - 1];
    if (row) set(row, verdict);
  };
  const digits = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; main.focus(); event.preventDefault(); }
  });
  keys.use("Picture", [
    { keys: ["ArrowRight"], repeats: true, shown: ["ArrowLeft", "ArrowRight"], words: "Previous or next picture", run: () => step(1) },
    { keys: ["ArrowLeft"], repeats: true, run: () => step(-1) },
    { keys: digits.map((d) => `Digit${d}`), shown: ["1", "9"], words: "Accept a suggestion; with Shift, reject it; again, clear the decision", run: (event) => numbered(event, event.shiftKey ? "rejected" : "accepted") },
    { keys: ["ArrowDown"], repeats: true, shown: ["ArrowUp", "ArrowDown"], words: "Select a suggestion", run: () => choose(1) },
    { keys: ["ArrowUp"], repeats: true, run: () => choose(-1) },
    { keys: ["a", " "], words: "Accept the selected suggestion", run: () => void decideChosen("accepted") },
    { keys: ["x"], words: "Reject it: never suggest it again here", run: () => void decideChosen("rejected") },
    { keys: ["f"], words: "100%, or the whole picture (also by a click)", run: toggleZoom },
    { keys: ["+", "="], shown: ["+", "-"], repeats: true, words: "Zoom in or out", run: () => { zoom.step(stage, 1); showZoom(); } },
    { keys: ["-"], repeats: true, run: () => { zoom.step(stage, -1); showZoom(); } },
    { keys: ["e"], words: "Explain the suggestion", run: () => void why() },
    { keys: ["t", "/"], words: "Add a tag", run: () => input.focus() },
    { keys: ["m"], words: "More like this picture", run: () => void go(`/library?like=${number}`) },
    { keys: ["c"], words: "Complete: no other tag applies", run: () => setComplete(!one.complete) },
    { keys: ["Escape"], words: `Back to ${title}`, run: () => void go(back) },
  ]);
  zoomGestures(stage, zoom, showZoom);
  swipes(stage, (by) => zoom.isFit && step(by));
  await show();
  main.focus({ preventScroll: true });
  return () => (asking += 1);
}

/** Step to other pictures by swiping. */
function swipes(stage, step) {
  let from = null;
  stage.addEventListener("pointerdown", (event) => (from = event.pointerType === "touch" ? event : null));
  stage.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [x, y] = [event.clientX - from.clientX, event.clientY - from.clientY];
    if (Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) step(x < 0 ? 1 : -1);
    from = null;
  });
}
