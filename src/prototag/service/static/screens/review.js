// Review of a batch of one tag or queue: a fixed grid of 40 cells that never reorders.
// Later decisions change the next batch only.

import { post } from "../api.js";
import { button, count, fetchAhead, find, h, percent, readable, thumbnail } from "../dom.js";
import { go } from "../app.js";
import { showError } from "../toast.js";
import { decide, allSent, undo } from "../decisions.js";
import { markInput, measurePaint } from "../perf.js";
import { showWhy } from "../explanation.js";
import { cellElement, show } from "../review_cell.js";
import { dragSelect } from "../drag_select.js";
import { sizeSlider } from "../picture_size.js";
import { sharpen } from "../sharp_thumbnails.js";
import { fetchLarge } from "../picture_prefetch.js";
import { openViewer } from "../viewer.js";
import { countAbove, aboveThreshold, thresholdAt } from "../cutoff.js";
import { setRow } from "../navigation.js";
import { isRunning } from "../job_progress.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const BATCH_SIZE = 40;
const MAX_SKIP = 1000; // pictures to skip in one request, a limit of the service
const PREPARE_MS = 300; // between a decision and a request for the next batch
const REST_MS = 150; // pause of the cursor before its large picture is fetched
const SEEN_MS = 300; // time on screen before a batch can be accepted, against held or repeated keys
const QUEUES = {
  most_informative: { title: "Most useful answers", words: "Suggestions of all tags whose answers improve the model most" },
  likely_missing: { title: "Likely missing", words: "Tags that your pictures may lack" },
  general_words: { title: "General words", words: "Words that ProtoTag knows without your tags: accepting one makes it your tag" },
  likely_wrong: { title: "Likely wrong", words: "Your tags that may be wrong: x removes one, a keeps it" },
};
const RANKED_BY_SIMILARITY = "Ranked by similarity. Accept and reject some, then ProtoTag can estimate probabilities.";
const RANKED_BY_NAME = "No picture has this tag: ranked by its name. Accept some and reject others; each decision counts at once.";
const visits = new Map(); // by queue or tag and order: the batches that were shown, for returning to them

function visitState(name, uncertain) {
  const key = `${name} ${uncertain}`;
  if (!visits.has(key)) visits.set(key, { batches: [], at: -1, left: [], threshold: null }); // threshold: null until the user moves it
  return visits.get(key);
}

export async function open(main, { params }) {
  const tag = params.get("tag");
  const queue = tag === null ? (params.get("queue") ?? "most_informative") : null;
  const uncertain = params.has("order") ? params.get("order") === "informative" : queue === "most_informative";
  const visit = visitState(tag ?? `queue ${queue}`, uncertain);
  const asked = tag === null ? { queue } : { tag, uncertain };
  const isWrong = queue === "likely_wrong";

  const facts = h("p", { class: "muted facts" });
  const grid = h("ul", { class: "batch", role: "listbox", "aria-multiselectable": "true", "aria-label": `Pictures for ${tag === null ? QUEUES[queue].title : readable(tag)}` });
  const end = h("div", { class: "end muted", role: "status" }, "Loading…");
  const status = h("p", { class: "doing", "aria-live": "polite" });
  const ranking = button("", "r", () => rankAgain(), { class: "ranking", hidden: true, title: "Rank the undecided pictures again, by all your answers" });
  const accept = button("Accept", "⏎", () => next(), { class: "main" });
  const size = sizeSlider("review", setCellWidth, () => elements[0]?.clientWidth ?? 160);
  const tools = h("div", { class: "actions-bar", role: "toolbar", "aria-label": "Decide" }, status,
    h("span", { class: "group" }, button("Accept", "a", () => decideSelected("accepted")), button("Reject", "x", () => decideSelected("rejected"))),
    h("span", { class: "group" }, button("Large", "o", () => openLarge()), button("Explain", "e", why), button("Undo", "z", () => void undo())),
    h("span", { class: "group" }, button("Fewer", "[", () => moveThreshold(-1)), button("More", "]", () => moveThreshold(1))), accept);
  main.classList.add("fixed");
  main.append(
    h("div", { class: "batch-head" },
      h("a", { href: "/", class: "up", "aria-label": "Back to the tags" }, "←"),
      h("h1", {}, tag === null ? QUEUES[queue].title : readable(tag)), facts, ranking, size.slider, tag === null ? null : orders(tag, uncertain)),
    grid, end, tools);

  let batch = { cells: [], nAbove: 0, isRankedOnly: false }; // nAbove: cells above the threshold
  let cursor = 0;
  let anchor = 0; // start of the selected range
  let selected = new Set(); // indices of cells; if empty, decisions apply to the cell of the cursor
  let viewer = null;
  let answered = 0; // cells that were decided in this visit
  let elements = [];
  let isSeen = false; // whether this batch was on screen for SEEN_MS

  // -- showing -------------------------------------------------------------------------------------

  function display() {
    elements = batch.cells.map((cell) => cellElement(cell, tag === null, batch.isRankedOnly));
    grid.replaceChildren(...elements);
    grid.hidden = !elements.length;
    end.hidden = !grid.hidden;
    if (grid.hidden) showEnd();
    selected.clear();
    refresh();
    move(Math.min(cursor, Math.max(batch.cells.length - 1, 0)), { quiet: true });
    sharpenCells();
    const ready = Promise.all(elements.map((element) => find("img", element).decode().catch(() => {})));
    measurePaint("batch", ready);
    waitUntilSeen(ready);
  }
  async function waitUntilSeen(ready) {
    const of = elements;
    setSeen(false);
    await ready;
    await new Promise(requestAnimationFrame); // never called while the page is hidden
    await new Promise((resolve) => setTimeout(resolve, SEEN_MS));
    if (of === elements) setSeen(true);
  }
  function setSeen(is) {
    isSeen = is;
    accept.disabled = !is;
  }
  function refresh() {
    const sure = aboveThreshold(batch.cells, batch.nAbove);
    const falling = !uncertain && !isWrong && batch.nAbove < batch.cells.length;
    batch.cells.forEach((cell, i) => show(elements[i], cell, {
      isCertain: sure.has(cell),
      isSelected: selected.has(i),
      isFirstBelow: falling && i === batch.nAbove,
      withTag: tag === null,
      isRanked: batch.isRankedOnly,
    }));
    const open = batch.cells.filter((cell) => !cell.verdict);
    const taken = open.filter((cell) => sure.has(cell));
    const pictures = taken.reduce((sum, cell) => sum + cell.stack.length, 0);
    const left = open.length - taken.length;
    const verb = isWrong ? "keeps" : "accepts";
    status.textContent = batch.cells.length
      ? `Enter ${taken.length ? `${verb} ${count(pictures, "picture")}` : "accepts nothing"}${left ? `, leaves ${left} undecided` : ""} and opens the next batch.`
      : "";
    for (const part of tools.children) part.hidden = !batch.cells.length;
    viewer?.refresh();
    find("span", accept).textContent = taken.length ? `${isWrong ? "Keep" : "Accept"} ${pictures}` : "Next batch";
  }
  /** Say what the order of the pictures does not include yet. */
  function showRanking() {
    ranking.hidden = !batch.cells.length || !answered || (!batch.missing && batch.isUpToDate);
    find("span", ranking).textContent = batch.missing ? `Ranked before your last ${count(batch.missing, "answer")}` : "Ranked before your last answers";
  }
  async function showFacts() {
    showRanking();
    await factsOfTag();
  }
  async function factsOfTag() {
    if (tag === null) return void (facts.textContent = QUEUES[queue].words);
    if (batch.isRankedByName) return void (facts.textContent = RANKED_BY_NAME);
    const known = await tags.one(tag);
    if (!known) return void (facts.textContent = "New tag");
    if (batch.isRankedOnly) return void (facts.textContent = `${count(known.pictures, "picture")}. ${RANKED_BY_SIMILARITY}`);
    const quality = !known.learned || known.precision === null ? "not reliable yet" : `expected precision ${percent(known.precision)}, recall ${percent(known.recall)}`;
    facts.textContent = `${count(known.pictures, "picture")}, ${count(known.suggestions, "suggestion")}, ${quality}`;
  }
  function showEnd() {
    const left = visit.left.length;
    const busy = isRunning("scan") ? "Pictures are still being scanned: new ones appear here when you open this again." : isRunning("learn") ? "Training is running: suggestions may appear when it is done." : "";
    const none = tag === null ? "Nothing is waiting here. Review tags one by one, or tag more pictures." : "ProtoTag finds no undecided picture that is likely to have this tag.";
    end.replaceChildren(
      h("h2", {}, left ? "All suggestions reviewed" : "Nothing to review"),
      h("p", {}, left ? `${count(left, "picture")} ${left === 1 ? "is" : "are"} still undecided.` : none),
      busy ? h("p", {}, busy) : null,
      h("p", {}, left ? button("Review them again", "r", again) : null, " ", tag === null ? null : [h("a", { href: `/library?mark=${encodeURIComponent(tag)}` }, "Select pictures in the library"), " "], h("a", { href: "/" }, "Back to the tags")));
  }
  function again() {
    visit.left.length = 0;
    visit.batches.length = 0;
    fetchNext();
  }

  /** Replace the batch by the most probable pictures, by all answers until now. */
  function rankAgain() {
    if (!batch.cells.length) return visit.left.length ? again() : false;
    visit.batches.length = visit.at;
    grid.setAttribute("aria-busy", "true");
    return void allSent().then(() => fetchNext({ up_to_date: true }));
  }

  // -- moving --------------------------------------------------------------------------------------

  const columns = () => getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  function move(to, { range = false, toggle = false, keep = false, quiet = false } = {}) {
    if (!elements.length) return void main.focus();
    const before = [cursor, ...selected].join();
    cursor = Math.min(Math.max(to, 0), elements.length - 1);
    if (toggle) {
      if (!selected.size && anchor !== cursor) selected.add(anchor);
      if (!selected.delete(cursor)) selected.add(cursor);
    } else if (range) selected = new Set(Array.from({ length: Math.abs(cursor - anchor) + 1 }, (_, k) => Math.min(anchor, cursor) + k));
    else if (!keep) selected.clear();
    if (!range) anchor = cursor;
    for (const element of elements) element.tabIndex = -1;
    elements[cursor].tabIndex = 0;
    if (!viewer) elements[cursor].focus({ preventScroll: true });
    elements[cursor].scrollIntoView({ block: "nearest" });
    if (before !== [cursor, ...selected].join() && !quiet) refresh();
    prefetchSoon();
  }
  const chosen = () => (selected.size ? [...selected].sort((a, b) => a - b) : [cursor]).map((i) => batch.cells[i]).filter(Boolean);

  // -- sizes ---------------------------------------------------------------------------------------

  function setCellWidth(width) {
    const room = grid.clientWidth || innerWidth;
    grid.classList.toggle("sized", width !== null);
    grid.style.gridTemplateColumns = width === null ? "" : `repeat(${Math.max(1, Math.round(room / width))}, minmax(0, 1fr))`;
    sharpenCells();
  }
  function sharpenCells() {
    if (elements.length) sharpen(elements.map((element, i) => [find("img", element), batch.cells[i].picture]), elements[0].clientWidth);
  }

  // -- large pictures ------------------------------------------------------------------------------

  /** Fetch the large picture of the cursor when it rests there, so that it opens without waiting. */
  let resting = null;
  function prefetchSoon() {
    clearTimeout(resting);
    if (viewer) return;
    resting = setTimeout(() => {
      if (!grid.isConnected || viewer) return;
      const near = [cursor, cursor + 1, cursor + 2].map((i) => batch.cells[i]?.picture).filter(Boolean);
      fetchLarge(near, () => {});
    }, REST_MS);
  }
  /** Open the picture of the cursor large, or compare the two to four selected ones. */
  function openLarge(at = cursor) {
    if (!batch.cells.length) return;
    const compared = selected.size > 1 && selected.has(at) ? chosen() : null;
    const cells = compared ?? batch.cells;
    viewer = openViewer(main, {
      count: () => cells.length,
      at: cells.indexOf(batch.cells[at]),
      panes: compared ? Math.min(compared.length, 4) : 1,
      item: (i) => ({ picture: cells[i].picture, name: cells[i].name || `Picture ${cells[i].picture}`, verdict: cells[i].verdict, facts: factsOf(cells[i]) }),
      question: {
        title: tag === null ? QUEUES[queue].title : `${readable(tag)}?`,
        accept: isWrong ? "Keep the tag" : "Accept",
        reject: isWrong ? "Remove the tag" : "Reject",
        answer: (i, verdict) => {
          if (verdict === null) change([cells[i]].filter((cell) => cell.verdict), null);
          else change([cells[i]].filter((cell) => cell.verdict !== verdict), verdict);
        },
      },
      more: (i) => openPicture(batch.cells.indexOf(cells[i])),
      closed: (i) => {
        viewer = null;
        if (grid.isConnected) move(Math.max(batch.cells.indexOf(cells[i]), 0), { keep: true });
        refresh();
      },
    });
  }
  const factsOf = (cell) => [tag === null ? readable(cell.tag) : null, batch.isRankedOnly ? null : percent(cell.probability), cell.stack.length > 1 ? count(cell.stack.length, "near-duplicate") : null].filter(Boolean).join(" · ");

  // -- deciding ------------------------------------------------------------------------------------

  function decideSelected(verdict, cells = chosen()) {
    if (!cells.length) return;
    const single = !selected.size;
    change(cells.filter((cell) => cell.verdict !== verdict), verdict);
    if (single) move(cursor + 1);
    measurePaint("decision");
  }
  function change(cells, verdict) {
    const of = batch;
    const before = cells.map((cell) => cell.verdict);
    const pairs = cells.flatMap((cell) => cell.stack.map((picture) => ({ picture, tag: cell.tag, verdict: verdict ?? "cleared" })));
    if (!pairs.length) return;
    const set = (values) => () => {
      cells.forEach((cell, i) => (cell.verdict = values[i]));
      answered += cells.length;
      prepareSoon();
      if (of === batch && grid.isConnected) refresh();
      else if (grid.isConnected && visit.batches.includes(of)) back(of);
    };
    decide(pairs, set(cells.map(() => verdict)), set(before)).then(() => {
      if (grid.isConnected) setTimeout(() => showFacts().catch(() => {}), 700);
    });
  }
  function back(of) {
    viewer?.close();
    prepared = null;
    visit.at = visit.batches.indexOf(of);
    visit.batches.length = visit.at + 1;
    visit.left = visit.left.filter((picture) => !of.cells.some((cell) => cell.picture === picture));
    batch = of;
    display();
  }
  function moveThreshold(by) {
    batch.nAbove = Math.min(Math.max(batch.nAbove + by, 0), batch.cells.length);
    visit.threshold = thresholdAt(batch.cells, batch.nAbove, visit.threshold);
    refresh();
  }
  function unstack() {
    const cell = batch.cells[cursor];
    if (!cell || cell.stack.length < 2) return;
    const sure = aboveThreshold(batch.cells, batch.nAbove).has(cell);
    batch.cells.splice(cursor, 1, ...cell.stack.map((picture) => ({ ...cell, picture, name: "", stack: [picture] })));
    if (sure) batch.nAbove += cell.stack.length - 1;
    display();
  }
  function next() {
    if (!batch.cells.length || !isSeen) return;
    setSeen(false);
    const sure = aboveThreshold(batch.cells, batch.nAbove);
    const open = batch.cells.filter((cell) => !cell.verdict);
    visit.left.push(...open.filter((cell) => !sure.has(cell)).flatMap((cell) => cell.stack));
    const found = prepared;
    change(open.filter((cell) => sure.has(cell)), "accepted");
    if (found) return take(found, answered - found.answered);
    grid.setAttribute("aria-busy", "true");
    status.textContent = "Ranking the next pictures…";
    return allSent().then(() => fetchNext());
  }

  // The next batch is fetched in advance, and again while the person decides, one request at a time.
  // It skips the pictures of this one. `answered` of a batch counts the answers that rank it.
  let prepared = null;
  let waiting = null;
  let isPreparing = false;
  function prepareSoon() {
    if (waiting === null && !isPreparing) waiting = setTimeout(prepare, PREPARE_MS);
  }
  async function prepare() {
    const of = batch;
    const known = answered;
    waiting = null;
    isPreparing = true;
    const shown = of.cells.flatMap((cell) => cell.stack).slice(0, MAX_SKIP);
    const skip = [...visit.left.slice(Math.min(0, shown.length - MAX_SKIP)), ...shown].slice(-MAX_SKIP);
    const found = await allSent().then(() => post("/review-batch", { ...asked, limit: BATCH_SIZE, skip, up_to_date: true })).catch(() => null);
    isPreparing = false;
    if (!grid.isConnected) return;
    if (of !== batch || known !== answered) prepareSoon();
    if (found === null || of !== batch) return;
    prepared = { ...found, answered: known };
    fetchAhead(found.cells.map((cell) => thumbnail(cell.picture)));
  }
  async function fetchNext(more = {}) {
    try {
      take(await post("/review-batch", { ...asked, ...more, limit: BATCH_SIZE, skip: visit.left.slice(-MAX_SKIP) }));
    } catch (error) {
      if (error.kind !== "no-model") showError(error);
      grid.hidden = true;
      end.hidden = false;
      const words = error.kind === "no-model" ? isRunning("learn") ? "Training is running. Open this again when it is done." : "Nothing has been trained yet. Tag some pictures in the library, then train." : error.message;
      end.replaceChildren(h("p", {}, words), h("a", { href: "/" }, "Back to the tags"));
    }
    grid.removeAttribute("aria-busy");
  }
  function take(found, missing = 0) {
    prepared = null;
    batch = { missing, isUpToDate: found.up_to_date, cells: found.cells.map((cell) => ({ ...cell, verdict: null })), nAbove: 0, isRankedOnly: found.ranked_by_similarity, isRankedByName: found.ranked_by_name };
    batch.nAbove = countAbove(batch.cells, visit.threshold ?? (isWrong ? 0 : found.threshold));
    visit.batches.push(batch);
    visit.at = visit.batches.length - 1;
    cursor = 0;
    anchor = 0;
    display();
    fetchAhead(found.prefetch.map(thumbnail));
    showFacts().catch(() => {});
    prepareSoon();
  }

  // -- other actions -----------------------------------------------------------------------------------

  function why() {
    const cell = batch.cells[cursor];
    if (cell) showWhy(cell.picture, cell.tag, cell.probability).then(() => {}, showError);
  }
  function openPicture(at = cursor) {
    const cell = batch.cells[at];
    if (!cell) return;
    visit.cursor = at;
    setRow(batch.cells.map((one) => one.picture), location.pathname + location.search, tag === null ? QUEUES[queue].title : readable(tag));
    go(`/picture/${cell.picture}`);
  }
  grid.addEventListener("click", (event) => {
    const at = elements.indexOf(event.target.closest("[role=option]"));
    if (at < 0) return void (selected.size && move(cursor));
    move(at, { range: event.shiftKey, toggle: event.ctrlKey || event.metaKey });
    markInput(event);
    if (event.target.matches(".enlarge")) openLarge(at);
  });
  grid.addEventListener("dblclick", (event) => { markInput(event); if (!viewer) openLarge(); });
  let banded = new Set(); // selected before the rectangle
  const stopDragging = dragSelect(grid, grid, {
    hit: (box) => elements.map((element, i) => [i, element.getBoundingClientRect()])
      .filter(([, at]) => at.left < box.right && at.right > box.left && at.top < box.bottom && at.bottom > box.top).map(([i]) => i),
    band(found, { add, ended }) {
      selected = new Set(add ? [...banded, ...found] : found);
      if (ended) banded = new Set(selected);
      if (ended && found.length) move(found[0], { keep: true });
      refresh();
    },
  });
  const resized = new ResizeObserver(() => sharpenCells());
  resized.observe(grid);

  const steps = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: () => -columns(), ArrowDown: () => columns() };
  const arrows = Object.keys(steps);
  const inside = (to) => to >= 0 && to < elements.length;
  keys.use("Review", [
    { keys: arrows, repeats: true, words: "Move", run: ({ key }) => { const to = cursor + steps[key](); if (inside(to)) move(to); measurePaint("move"); } },
    { keys: arrows.map((key) => `Shift+${key}`), shown: ["Shift+ArrowRight"], repeats: true, words: "Select several", run: ({ key }) => { const to = cursor + steps[key](); if (inside(to)) move(to, { range: true }); } },
    { keys: ["Ctrl+a"], words: "Select all", run: () => { selected = new Set(batch.cells.keys()); refresh(); } },
    { keys: ["Home"], run: () => move(0) },
    { keys: ["End"], run: () => move(elements.length - 1) },
    { keys: ["a", " "], words: isWrong ? "Keep the tag" : "Accept", run: () => decideSelected("accepted") },
    { keys: ["x"], words: isWrong ? "Remove the tag" : "Reject: never suggest it again here", run: () => decideSelected("rejected") },
    { keys: ["Backspace"], words: "Clear the decision", run: () => change(chosen().filter((cell) => cell.verdict), null) },
    { keys: ["Enter"], words: isWrong ? "Keep the tags above the threshold and open the next batch" : "Accept the pictures above the threshold and open the next batch", run: () => void next() },
    { keys: ["["], shown: ["[", "]"], repeats: true, words: "Move the threshold", run: () => moveThreshold(-1) },
    { keys: ["]"], repeats: true, run: () => moveThreshold(1) },
    { keys: ["s"], words: "Expand a stack of near-duplicates", run: unstack },
    { keys: ["e"], words: "Explain the suggestion", run: why },
    { keys: ["o"], words: "Open large, or compare the selected pictures", run: () => openLarge() },
    { keys: ["t"], words: "All tags of the picture", run: () => openPicture() },
    ...size.bindings,
    { keys: ["r"], words: "Rank the undecided pictures again", run: rankAgain },
    { keys: ["m"], words: "Switch between most probable and most useful first", run: () => (tag === null ? false : void go(orderOf(tag, !uncertain), { replace: true })) },
    { keys: ["Escape"], words: "Clear the selection, then back to the tags", run: () => (selected.size ? move(cursor) : void go("/")) },
  ]);

  size.start();
  grid.hidden = true;
  for (const part of tools.children) part.hidden = true;
  showFacts().catch(() => {});
  if (visit.at >= 0 && visit.batches[visit.at].cells.some((cell) => !cell.verdict)) {
    batch = visit.batches[visit.at];
    cursor = anchor = visit.cursor ?? 0;
    display();
  } else {
    await allSent();
    await fetchNext();
  }
  return () => { stopDragging(); resized.disconnect(); clearTimeout(resting); };
}

const orderOf = (tag, uncertain) => `/review?tag=${encodeURIComponent(tag)}${uncertain ? "&order=informative" : ""}`;

const orders = (tag, uncertain) => h("nav", { class: "switch", "aria-label": "Order" },
  h("a", { href: orderOf(tag, false), "aria-current": uncertain ? undefined : "true" }, "Most probable"),
  h("a", { href: orderOf(tag, true), "aria-current": uncertain ? "true" : undefined }, "Most useful"));
