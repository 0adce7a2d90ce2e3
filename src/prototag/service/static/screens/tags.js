// Tags as a tree, with expected precision and recall and the number of suggestions.

import { get, post } from "../api.js";
import { button, count, fill, h, leaf, percent, readable } from "../dom.js";
import { askTag, confirm } from "../dialog.js";
import { go } from "../app.js";
import { showError, showMessage } from "../toast.js";
import { jobEvents } from "../job_progress.js";
import { tree, visible } from "../tag_tree.js";
import { learn, welcome } from "../welcome.js";
import { curves, showCurve, spark } from "../learning_curve.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const MAX_GENERAL_WORDS = 60;
const ROWS_PER_CHUNK = 200; // rows are created while scrolling
const state = { text: "", order: "suggestions", current: null, folded: new Set() };
const reviewAddress = (tag) => `/review?tag=${encodeURIComponent(tag)}`;

export async function open(main) {
  const general = h("section", { class: "general-words", hidden: true, "aria-label": "General words" });
  const head = h("div", { class: "notices" });
  const summary = h("p", { class: "muted summary" });
  const search = h("input", { type: "search", placeholder: "Find a tag", "aria-label": "Find a tag", value: state.text });
  const order = h("select", { "aria-label": "Order" },
    h("option", { value: "suggestions" }, "Most suggestions first"),
    h("option", { value: "name" }, "By name"),
    h("option", { value: "pictures" }, "Most pictures first"));
  order.value = state.order;
  const body = h("tbody", {});
  const table = h("table", { role: "treegrid", class: "tags", "aria-label": "Tags", hidden: true }, heads(), body);
  const empty = h("p", { class: "notice", hidden: true });
  const queues = h("div", { class: "queues", hidden: true },
    queue("most_informative", "Most useful answers", "Answers that improve the suggestions most"),
    queue("likely_missing", "Likely missing", "Tags you may have forgotten"),
    queue("likely_wrong", "Likely wrong", "Your tags that may be wrong"));
  main.append(h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", {}, "Tags"), summary),
    head, general,
    queues,
    h("div", { class: "tools" }, search, order, button("New tag", "n", newTag),
      button("Learning curve", "c", () => curve(current()), { class: "narrow" }),
      button("Rename", "r", () => rename(current()), { class: "narrow" }),
      button("Never suggest", "b", () => hide(current()), { class: "narrow" })),
    table, empty));

  let all = [];
  let rows = []; // what is shown, in order
  let made = 0; // rows that have an element
  let learned = new Map(); // points of the learning curves, by tag

  async function load() {
    all = await tags.all();
    const isFree = isOnRow() || document.activeElement === document.body;
    draw();
    if (isFree) move(place());
    welcome(head).catch(showError);
    showGeneralWords(general).catch(showError);
    lines().catch(showError); // in the background
  }
  async function lines() {
    learned = await curves();
    for (const [at, row] of rows.slice(0, made).entries()) {
      if (learned.has(row.path)) fill(body.children[at].querySelector(".curve"), sparked(row));
    }
  }
  function draw() {
    rows = visible(tree(all, state.text, state.order), state.folded, Boolean(state.text));
    body.replaceChildren();
    made = 0;
    grow(ROWS_PER_CHUNK);
    const waiting = all.reduce((sum, tag) => sum + (tag.hidden ? 0 : tag.suggestions), 0);
    const known = all.filter((tag) => tag.learned).length;
    const wait = waiting ? ` ${count(waiting, "suggestion")} to review.` : "";
    summary.textContent = all.length ? `${count(all.length, "tag")}. ProtoTag can suggest ${known === all.length ? "all" : known.toLocaleString("en")} of them.${wait}` : "";
    empty.hidden = rows.length > 0;
    empty.textContent = all.length ? `No tag contains “${state.text}”.` : "No tags yet. Press n to add the first one.";
    table.hidden = !rows.length;
    queues.hidden = !known;
  }
  function grow(until) {
    body.append(...rows.slice(made, until).map(drawn));
    made = Math.min(rows.length, Math.max(made, until));
    if (made < rows.length) watcher.observe(body.lastElementChild);
    mark();
  }
  const watcher = new IntersectionObserver((seen) => {
    for (const one of seen.filter((entry) => entry.isIntersecting)) {
      watcher.unobserve(one.target);
      grow(made + ROWS_PER_CHUNK);
    }
  }, { rootMargin: "600px" });

  // The cursor belongs to a tag, so that it survives sorting and filtering.
  const place = () => Math.max(0, rows.findIndex((row) => row.path === state.current));
  const current = () => rows[place()];
  function mark() {
    for (const row of body.querySelectorAll("[tabindex='0']")) row.tabIndex = -1;
    if (body.children[place()]) body.children[place()].tabIndex = 0;
  }
  function move(to) {
    if (!rows.length) return;
    const at = Math.min(Math.max(to, 0), rows.length - 1);
    if (at >= made) grow(at + ROWS_PER_CHUNK);
    state.current = rows[at].path;
    mark();
    body.children[at].focus();
  }

  function drawn(row) {
    const { tag, path, level, kids } = row;
    const folded = state.folded.has(path);
    const name = h("bdi", {}, state.text && !kids ? readable(path) : leaf(path));
    const first = h("th", { scope: "row", class: `level-${Math.min(level, 6)}` },
      kids ? h("span", { class: folded ? "fold folded" : "fold", onclick: () => fold(row) }) : null,
      tag && !tag.hidden ? h("a", { href: reviewAddress(path), tabindex: "-1" }, name) : name);
    return h("tr", {
      tabindex: "-1",
      "aria-level": level + 1,
      "aria-expanded": kids ? String(!folded) : undefined,
      class: tag?.hidden ? "off" : tag ? undefined : "branch",
      onfocus: () => { state.current = path; mark(); },
    }, first, ...(tag ? cells(row) : sums(row)));
  }
  function cells(row) {
    const { tag } = row;
    const waiting = tag.suggestions && !tag.hidden;
    return [
      h("td", { class: "number" }, tag.pictures.toLocaleString("en")),
      h("td", { class: "number" }, waiting ? h("span", { class: "suggestion-count" }, tag.suggestions.toLocaleString("en")) : "–"),
      h("td", { class: "number wide" }, percent(tag.precision)),
      h("td", { class: "number wide" }, percent(tag.precision === null ? null : tag.recall)),
      h("td", { class: "curve wide" }, sparked(row)),
      h("td", { class: "state" }, h("span", {}, stateOf(tag)), h("span", { class: "actions" },
        h("button", { type: "button", tabindex: "-1", onclick: () => rename(row) }, "Rename"),
        h("button", { type: "button", tabindex: "-1", onclick: () => hide(row) }, tag.hidden ? "Suggest again" : "Never suggest"))),
    ];
  }

  function sparked(row) {
    const points = learned.get(row.path);
    if (!points) return null;
    return h("button", {
      type: "button", tabindex: "-1", "aria-label": `Learning curve of “${readable(row.path)}”`, onclick: () => curve(row),
    }, spark(points));
  }
  function curve(row) {
    if (row?.tag) showCurve(row.path, learned.get(row.path));
  }
  function fold(row, folded = !state.folded.has(row.path)) {
    if (folded) state.folded.add(row.path);
    else state.folded.delete(row.path);
    state.current = row.path;
    draw();
    move(place());
  }
  async function rename(row) {
    if (!row?.tag) return;
    const name = await askTag(`Rename “${readable(row.path)}”`, {
      value: row.path,
      words: "A name with | makes a tree: animal|cat. The name of another tag merges the two.",
      button: "Rename",
    });
    if (name === null || name === row.path) return move(place());
    const other = all.find((tag) => tag.name.toLowerCase() === name.toLowerCase() && tag.name !== row.path);
    if (other) {
      const title = `Merge “${readable(row.path)}” into “${readable(other.name)}”?`;
      const consequence = `All pictures with ${readable(row.path)} will have ${readable(other.name)}. This cannot be undone.`;
      if (!(await confirm(title, consequence, "Merge"))) return move(place());
    }
    await changed(() => post("/tags/rename", { old: row.path, new: name }), () => (state.current = name));
  }
  async function hide(row) {
    if (!row?.tag) return;
    const { name, hidden } = row.tag;
    row.tag.hidden = !hidden;
    draw();
    move(place());
    const state = hidden ? "is suggested again." : "is not suggested any more; press b to change that.";
    await changed(() => post("/tags/hide", { tag: name, hidden: !hidden }), () => showMessage(`“${readable(name)}” ${state}`));
  }
  async function changed(request, then) {
    try {
      await request();
      then();
    } catch (error) {
      showError(error);
    }
    tags.invalidate();
    await load().catch(showError);
    move(place());
  }
  async function newTag() {
    const name = await askTag("A new tag", {
      words: "Next, ProtoTag ranks your pictures by the name, or you select about five pictures for it.",
      button: "Continue",
    });
    if (!name) return;
    const { available } = await get("/general-words");
    go(available && /\p{L}/u.test(name) ? reviewAddress(name) : `/library?mark=${encodeURIComponent(name)}`);
  }

  search.addEventListener("input", () => { state.text = search.value; draw(); });
  order.addEventListener("change", () => { state.order = order.value; draw(); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = state.text = ""; draw(); move(place()); }
    else if (event.key === "ArrowDown" || event.key === "Enter") { state.current = null; move(0); }
    else return;
    event.preventDefault();
  });
  const isOnRow = () => body.contains(document.activeElement);
  keys.use("Tags", [
    { keys: ["ArrowDown"], repeats: true, words: "Next", run: () => move(place() + (isOnRow() ? 1 : 0)) },
    { keys: ["ArrowUp"], repeats: true, words: "Previous", run: () => move(place() - (isOnRow() ? 1 : 0)) },
    { keys: ["Home"], run: () => move(0) },
    { keys: ["End"], run: () => move(rows.length - 1) },
    { keys: ["PageDown"], repeats: true, run: () => move(place() + 12) },
    { keys: ["PageUp"], repeats: true, run: () => move(place() - 12) },
    { keys: ["ArrowRight"], run: () => (current()?.kids ? fold(current(), false) : false) },
    { keys: ["ArrowLeft"], shown: ["ArrowLeft", "ArrowRight"], words: "Collapse or expand a branch", run: () => (current()?.kids ? fold(current(), true) : false) },
    { keys: ["Enter"], words: "Review its suggestions", run: () => (current()?.tag ? void go(reviewAddress(current().path)) : false) },
    { keys: ["/"], words: "Find a tag", run: () => search.focus() },
    { keys: ["n"], words: "New tag", run: () => void newTag() },
    { keys: ["c"], words: "Show the learning curve", run: () => curve(current()) },
    { keys: ["r"], words: "Rename, or merge with another tag", run: () => void rename(current()) },
    { keys: ["b"], words: "Never suggest it, or suggest it again", run: () => void hide(current()) },
    { keys: ["i"], words: "Review the most informative suggestions", run: () => void go("/review?queue=most_informative") },
    { keys: ["l"], words: "Train now", run: () => void learn() },
  ]);

  const onJob = ({ detail }) => {
    if (detail.state !== "running") load().catch(showError);
    else welcome(head).catch(() => {});
  };
  jobEvents.addEventListener("job", onJob);
  await load();
  if (rows.length) move(place());
  return () => { jobEvents.removeEventListener("job", onJob); watcher.disconnect(); };
}

/** Before the first training, show the words that ProtoTag suggests without any tag. */
async function showGeneralWords(room) {
  const { model } = await get("/library");
  const { words } = model ? { words: [] } : await get("/general-words");
  room.hidden = !words.length;
  fill(room, h("h2", {}, "Words for your pictures"),
    h("p", { class: "muted" }, "ProtoTag suggests these words without any tag of yours. Open one and accept pictures: then it is your tag. ",
      h("a", { href: "/review?queue=general_words" }, "Review all words")),
    h("ul", { class: "chips" }, ...words.slice(0, MAX_GENERAL_WORDS).map(({ word, pictures }) => h("li", { class: "chip" },
      h("a", { href: reviewAddress(word) }, h("bdi", {}, word), " ", h("small", {}, pictures.toLocaleString("en")))))));
}

const queue = (name, title, words) =>
  h("a", { class: "queue", href: `/review?queue=${name}` }, h("strong", {}, title), h("span", {}, words));

const heads = () => h("thead", {}, h("tr", {},
  h("th", { scope: "col" }, "Tag"),
  h("th", { scope: "col", class: "number" }, "Pictures"),
  h("th", { scope: "col", class: "number" }, "Suggestions"),
  h("th", { scope: "col", class: "number wide" }, "Precision"),
  h("th", { scope: "col", class: "number wide" }, "Recall"),
  h("th", { scope: "col", class: "wide" }, h("span", { class: "unseen" }, "Curve")),
  h("th", { scope: "col" }, h("span", { class: "unseen" }, "State"))));

const sums = (row) => [
  h("td", { class: "number muted" }, row.pictures.toLocaleString("en")),
  h("td", { class: "number muted" }, row.suggestions ? row.suggestions.toLocaleString("en") : "–"),
  h("td", { class: "wide" }), h("td", { class: "wide" }), h("td", { class: "wide" }), h("td", {}),
];

function stateOf(tag) {
  if (tag.hidden) return "hidden";
  if (tag.learned) return tag.precision === null ? "suggest only" : "";
  if (!tag.pictures) return "";
  return tag.accepted && !tag.rejected ? "ranked by similarity" : "not reliable yet";
}
