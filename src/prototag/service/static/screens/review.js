// The sheet of one tag, or of a lane: a fixed grid of 40 that never reorders; the next one knows.

import { post } from "../api.js";
import { button, count, fetchAhead, find, h, percent, readable, thumbnail } from "../dom.js";
import { go } from "../app.js";
import { complain } from "../toast.js";
import { decide, settled, undo } from "../decisions.js";
import { painted } from "../perf.js";
import { showWhy } from "../explanation.js";
import { cellElement, show } from "../review_cell.js";
import { above, certain, height } from "../cutoff.js";
import { going } from "../navigation.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const SIZE = 40;
const SKIPPED = 1000; // pictures that one request can leave out
const PREPARE = 500; // milliseconds after the last decision
const SEEN = 300; // milliseconds that a review batch must have been on the screen before it can be accepted
const LANES = {
  any: { title: "Anything", words: "What would teach most, of all tags" },
  missing: { title: "Likely missing", words: "Tags that pictures of yours may lack" },
  wrong: { title: "Likely wrong", words: "Tags of yours that look odd: x removes one, a keeps it" },
};
const RANKED = "Ranked by similarity; accept or reject some, then ProtoTag can estimate how sure it is.";
const kept = new Map(); // by tag and order: the sheets that were seen, so that coming back shows them

function remembered(name, uncertain) {
  const key = `${name} ${uncertain}`;
  if (!kept.has(key)) kept.set(key, { sheets: [], at: -1, left: [], height: null }); // height: where a person has put the line
  return kept.get(key);
}

export async function open(main, { params }) {
  const tag = params.get("tag");
  const lane = tag === null ? (params.get("lane") ?? "any") : null;
  const uncertain = params.has("order") ? params.get("order") === "instructive" : lane === "any";
  const here = remembered(tag ?? `lane ${lane}`, uncertain);
  const asked = tag === null ? { lane } : { tag, uncertain };
  const isWrong = lane === "wrong";

  const facts = h("p", { class: "muted facts" });
  const grid = h("ul", { class: "sheet", role: "listbox", "aria-multiselectable": "true", "aria-label": `Pictures for ${tag === null ? LANES[lane].title : readable(tag)}` });
  const end = h("div", { class: "end muted", role: "status" }, "Looking…");
  const status = h("p", { class: "doing", "aria-live": "polite" });
  const accept = button("Accept", "⏎", () => next(), { class: "main" });
  const tools = h("div", { class: "actions-bar", role: "toolbar", "aria-label": "Decide" }, status,
    h("span", { class: "group" }, button("Yes", "a", () => say("accepted")), button("No", "x", () => say("rejected"))),
    h("span", { class: "group" }, button("Open", "o", openPicture), button("Why", "e", why), button("Undo", "z", () => void undo())),
    h("span", { class: "group" }, button("Fewer", "[", () => moveLine(-1)), button("More", "]", () => moveLine(1))), accept);
  main.classList.add("fixed");
  main.append(
    h("div", { class: "sheet-head" },
      h("a", { href: "/", class: "up", "aria-label": "Back to the tags" }, "←"),
      h("h1", {}, tag === null ? LANES[lane].title : readable(tag)), facts, tag === null ? null : orders(tag, uncertain)),
    grid, end, tools);

  let sheet = { cells: [], line: 0, ranked: false }; // line: how many cells are above it
  let cursor = 0;
  let anchor = 0; // where a range began
  let elements = [];
  let isSeen = false; // whether this sheet was on the screen for long enough to be accepted

  // -- showing -------------------------------------------------------------------------------------

  function display() {
    elements = sheet.cells.map((cell) => cellElement(cell, tag === null, sheet.ranked));
    grid.replaceChildren(...elements);
    grid.hidden = !elements.length;
    end.hidden = !grid.hidden;
    if (grid.hidden) finished();
    refresh();
    move(Math.min(cursor, Math.max(sheet.cells.length - 1, 0)), { quiet: true });
    const ready = Promise.all(elements.map((element) => find("img", element).decode().catch(() => {})));
    painted("sheet", ready);
    waitUntilSeen(ready);
  }
  async function waitUntilSeen(ready) {
    const of = elements;
    setSeen(false);
    await ready;
    await new Promise(requestAnimationFrame); // which a hidden page does not get
    await new Promise((resolve) => setTimeout(resolve, SEEN));
    if (of === elements) setSeen(true);
  }
  function setSeen(is) {
    isSeen = is;
    accept.disabled = !is;
  }
  function refresh() {
    const sure = certain(sheet.cells, sheet.line);
    const [low, high] = [Math.min(anchor, cursor), Math.max(anchor, cursor)];
    const falling = !uncertain && !isWrong && sheet.line < sheet.cells.length;
    sheet.cells.forEach((cell, i) => show(elements[i], cell, {
      isCertain: sure.has(cell),
      isSelected: low !== high && low <= i && i <= high,
      isFirstBelow: falling && i === sheet.line,
      withTag: tag === null,
      isRanked: sheet.ranked,
    }));
    const open = sheet.cells.filter((cell) => !cell.verdict);
    const taken = open.filter((cell) => sure.has(cell));
    const pictures = taken.reduce((sum, cell) => sum + cell.stack.length, 0);
    const left = open.length - taken.length;
    const yes = isWrong ? "keeps" : "accepts";
    status.textContent = sheet.cells.length
      ? `Enter ${taken.length ? `${yes} ${count(pictures, "picture")}` : "accepts nothing"}${left ? `, leaves ${left} open` : ""}, and goes on.`
      : "";
    for (const part of tools.children) part.hidden = !sheet.cells.length;
    find("span", accept).textContent = taken.length ? `${isWrong ? "Keep" : "Accept"} ${pictures}` : "Next sheet";
  }
  async function tell() {
    if (tag === null) return void (facts.textContent = LANES[lane].words);
    const known = await tags.one(tag);
    if (!known) return void (facts.textContent = "a new tag");
    if (sheet.ranked) return void (facts.textContent = `${count(known.own, "picture")}. ${RANKED}`);
    const learned = !known.learned || known.precision === null ? "not sure of it yet" : `precision ${percent(known.precision)}, recall ${percent(known.recall)}`;
    facts.textContent = `${count(known.own, "picture")}, ${known.waiting.toLocaleString("en")} waiting, ${learned}`;
  }
  function finished() {
    const left = here.left.length;
    end.replaceChildren(
      h("h2", {}, left ? "That was all" : "Nothing to ask"),
      h("p", {}, left ? `${count(left, "picture")} stay${left === 1 ? "s" : ""} open.` : "Nothing is likely enough to be worth a question."),
      h("p", {}, left ? button("Look at them again", "r", again) : null, " ", h("a", { href: "/" }, "Back to the tags")));
  }
  function again() {
    here.left.length = 0;
    here.sheets.length = 0;
    fetchNext();
  }

  // -- moving --------------------------------------------------------------------------------------

  const columns = () => getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  function move(to, { range = false, quiet = false } = {}) {
    if (!elements.length) return void main.focus();
    const moved = cursor !== to || anchor !== to;
    cursor = Math.min(Math.max(to, 0), elements.length - 1);
    if (!range) anchor = cursor;
    for (const element of elements) element.tabIndex = -1;
    elements[cursor].tabIndex = 0;
    elements[cursor].focus({ preventScroll: true });
    elements[cursor].scrollIntoView({ block: "nearest" });
    if (moved && !quiet) refresh();
  }
  const chosen = () => sheet.cells.slice(Math.min(anchor, cursor), Math.max(anchor, cursor) + 1);

  // -- deciding ------------------------------------------------------------------------------------

  function say(verdict, cells = chosen()) {
    if (!cells.length) return;
    const single = cells.length === 1;
    change(cells.filter((cell) => cell.verdict !== verdict), verdict);
    if (single) move(cursor + 1);
    painted("decision");
  }
  function change(cells, verdict) {
    const of = sheet;
    const before = cells.map((cell) => cell.verdict);
    const pairs = cells.flatMap((cell) => cell.stack.map((picture) => ({ picture, tag: cell.tag, verdict: verdict ?? "cleared" })));
    if (!pairs.length) return;
    const set = (values) => () => {
      cells.forEach((cell, i) => (cell.verdict = values[i]));
      prepareSoon();
      if (of === sheet && grid.isConnected) refresh();
      else if (grid.isConnected && here.sheets.includes(of)) back(of);
    };
    decide(pairs, set(cells.map(() => verdict)), set(before)).then(() => {
      if (grid.isConnected) setTimeout(() => tell().catch(() => {}), 700);
    });
  }
  function back(of) {
    here.at = here.sheets.indexOf(of);
    here.sheets.length = here.at + 1;
    here.left = here.left.filter((picture) => !of.cells.some((cell) => cell.picture === picture));
    sheet = of;
    display();
  }
  function moveLine(by) {
    sheet.line = Math.min(Math.max(sheet.line + by, 0), sheet.cells.length);
    here.height = height(sheet.cells, sheet.line, here.height);
    refresh();
  }
  function unstack() {
    const cell = sheet.cells[cursor];
    if (!cell || cell.stack.length < 2) return;
    const sure = certain(sheet.cells, sheet.line).has(cell);
    sheet.cells.splice(cursor, 1, ...cell.stack.map((picture) => ({ ...cell, picture, name: "", stack: [picture] })));
    if (sure) sheet.line += cell.stack.length - 1;
    display();
  }
  function next() {
    if (!sheet.cells.length || !isSeen) return;
    setSeen(false);
    const sure = certain(sheet.cells, sheet.line);
    const open = sheet.cells.filter((cell) => !cell.verdict);
    here.left.push(...open.filter((cell) => !sure.has(cell)).flatMap((cell) => cell.stack));
    const found = prepared;
    change(open.filter((cell) => sure.has(cell)), "accepted");
    if (found) return take(found);
    grid.setAttribute("aria-busy", "true");
    return settled().then(fetchNext);
  }

  // The next sheet is asked for while somebody looks at this one: after each decision anew, as soon
  // as it is learned. It has none of the pictures that are on this one.
  let prepared = null;
  let waiting = null;
  function prepareSoon() {
    prepared = null;
    clearTimeout(waiting);
    waiting = setTimeout(prepare, PREPARE);
  }
  async function prepare() {
    const of = sheet;
    const mine = waiting;
    const shown = of.cells.flatMap((cell) => cell.stack).slice(0, SKIPPED);
    const skip = [...here.left.slice(Math.min(0, shown.length - SKIPPED)), ...shown].slice(-SKIPPED);
    const found = await settled().then(() => post("/sheet", { ...asked, limit: SIZE, skip })).catch(() => null);
    if (found === null || of !== sheet || mine !== waiting || !grid.isConnected) return;
    prepared = found;
    fetchAhead(found.cells.map((cell) => thumbnail(cell.picture)));
  }
  async function fetchNext() {
    try {
      take(await post("/sheet", { ...asked, limit: SIZE, skip: here.left.slice(-SKIPPED) }));
    } catch (error) {
      if (error.kind !== "no-model") complain(error);
      grid.hidden = true;
      end.hidden = false;
      const words = error.kind === "no-model" ? "There is no model yet." : error.message;
      end.replaceChildren(h("p", {}, words), h("a", { href: "/" }, "To the tags"));
    }
    grid.removeAttribute("aria-busy");
  }
  function take(found) {
    sheet = { cells: found.cells.map((cell) => ({ ...cell, verdict: null })), line: 0, ranked: found.ranked };
    sheet.line = above(sheet.cells, here.height ?? (isWrong ? 0 : found.line));
    here.sheets.push(sheet);
    here.at = here.sheets.length - 1;
    cursor = 0;
    anchor = 0;
    display();
    fetchAhead(found.ahead.map(thumbnail));
    tell().catch(() => {});
    prepareSoon();
  }

  // -- elsewhere -----------------------------------------------------------------------------------

  function why() {
    const cell = sheet.cells[cursor];
    if (cell) showWhy(cell.picture, cell.tag, cell.probability).then(() => {}, complain);
  }
  function openPicture() {
    const cell = sheet.cells[cursor];
    if (!cell) return;
    here.cursor = cursor;
    going(sheet.cells.map((one) => one.picture), location.pathname + location.search, tag === null ? LANES[lane].title : readable(tag));
    go(`/picture/${cell.picture}`);
  }
  grid.addEventListener("click", (event) => {
    const at = elements.indexOf(event.target.closest("[role=option]"));
    if (at < 0) return;
    move(at, { range: event.shiftKey });
  });
  grid.addEventListener("dblclick", openPicture);

  const steps = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: () => -columns(), ArrowDown: () => columns() };
  const arrows = Object.keys(steps);
  const inside = (to) => to >= 0 && to < elements.length;
  keys.use("Sheet", [
    { keys: arrows, repeats: true, words: "Move", run: ({ key }) => { const to = cursor + steps[key](); if (inside(to)) move(to); painted("move"); } },
    { keys: arrows.map((key) => `Shift+${key}`), shown: ["Shift+ArrowRight"], repeats: true, words: "Choose several", run: ({ key }) => { const to = cursor + steps[key](); if (inside(to)) { move(to, { range: true }); refresh(); } } },
    { keys: ["Home"], run: () => move(0) },
    { keys: ["End"], run: () => move(elements.length - 1) },
    { keys: ["a", " "], words: isWrong ? "The tag is right" : "Yes", run: () => say("accepted") },
    { keys: ["x"], words: isWrong ? "The tag is wrong: remove it" : "No, for ever", run: () => say("rejected") },
    { keys: ["Backspace"], words: "Open again", run: () => change(chosen().filter((cell) => cell.verdict), null) },
    { keys: ["Enter"], words: "Accept what is above the line, and go on to the next sheet", run: () => void next() },
    { keys: ["["], shown: ["[", "]"], repeats: true, words: "Move the line of doubt", run: () => moveLine(-1) },
    { keys: ["]"], repeats: true, run: () => moveLine(1) },
    { keys: ["s"], words: "Spread out a stack of look-alikes", run: unstack },
    { keys: ["e"], words: "Why?", run: why },
    { keys: ["o"], words: "Open the picture", run: openPicture },
    { keys: ["r"], run: () => (!sheet.cells.length && here.left.length ? again() : false) },
    { keys: ["m"], words: "Most probable or most instructive first", run: () => (tag === null ? false : void go(orderOf(tag, !uncertain), { replace: true })) },
    { keys: ["Escape"], words: "Back to the tags", run: () => void go("/") },
  ]);

  grid.hidden = true;
  for (const part of tools.children) part.hidden = true;
  tell().catch(() => {});
  if (here.at >= 0 && here.sheets[here.at].cells.some((cell) => !cell.verdict)) {
    sheet = here.sheets[here.at];
    cursor = anchor = here.cursor ?? 0;
    display();
  } else {
    await settled();
    await fetchNext();
  }
}

const orderOf = (tag, uncertain) => `/sheet?tag=${encodeURIComponent(tag)}${uncertain ? "&order=instructive" : ""}`;

const orders = (tag, uncertain) => h("nav", { class: "switch", "aria-label": "Order" },
  h("a", { href: orderOf(tag, false), "aria-current": uncertain ? undefined : "true" }, "Most probable"),
  h("a", { href: orderOf(tag, true), "aria-current": uncertain ? "true" : undefined }, "Most instructive"));
