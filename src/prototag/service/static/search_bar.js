// The search field with suggestions, the order of the pictures, and saved searches.

import { get, post } from "./api.js";
import { h, readable } from "./dom.js";
import { askText } from "./dialog.js";
import { matchingTags } from "./autocomplete.js";
import { markInput } from "./perf.js";
import { isFiltered } from "./filters.js";
import { showError, showMessage } from "./toast.js";
import * as tags from "./tag_store.js";

const ORDERS = { best: "Best match", added: "Date added", newest: "Newest first", oldest: "Oldest first", name: "File name", probability: "Surest suggestion", likeness: "Most alike" };
const STATES = ["untagged", "tagged", "suggested", "decided", "complete", "missing"];
const TIPS = [["dog or cat", "either"], ["dog -people", "without"], ['"New York"', "exactly these words"], ["tag:", "a tag"], ["camera:", "a camera"], ["lens:", "a lens"], ["date:", "2023, 2023-05, 2022..2023"], ["is:", "untagged, suggested …"], ["folder:", "part of a folder's name"], ["name:", "part of a file's name"]];
const MAX_OPTIONS = 10;
const MAX_LENGTH = 500;

/**
 * Create the search field and its controls. `choose(changes)` applies filters, `leave()` moves the
 * focus to the pictures, `facets()` returns the last counts, for names of cameras and lenses.
 */
export function searchBar(chosen, { choose, leave, facets }) {
  const list = h("ul", { role: "listbox", id: "search-options", hidden: true, "aria-label": "Suggestions" });
  const input = h("input", {
    type: "search", placeholder: "Search: dog or cat -people date:2023", "aria-label": "Search names, tags, cameras, dates, and what pictures show", value: chosen.text ?? "", maxlength: MAX_LENGTH,
    autocomplete: "off", role: "combobox", "aria-expanded": "false", "aria-controls": "search-options", "aria-autocomplete": "list",
  });
  let at = -1;
  let options = [];

  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function mark(place) {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = (place + options.length) % options.length;
    list.children[at].setAttribute("aria-selected", "true");
    list.children[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", list.children[at].id);
  }
  function take(place) {
    const { insert, isField, address } = options[place];
    close();
    if (address !== undefined) return choose(null, address);
    const { start } = lastToken(input.value);
    input.value = input.value.slice(0, start) + insert + (isField ? "" : " ");
    input.focus();
    if (isField) suggest();
  }
  async function suggest() {
    const { token } = lastToken(input.value);
    const asked = input.value;
    const found = await optionsFor(token, asked, facets());
    if (asked !== input.value || document.activeElement !== input) return;
    options = found.slice(0, MAX_OPTIONS);
    at = -1;
    list.replaceChildren(...options.map(({ words, note }, i) => h("li", { role: "option", id: `search-option-${i}`, "aria-selected": "false", onpointerdown: (event) => { event.preventDefault(); take(i); } }, h("bdi", {}, words), " ", h("small", {}, note ?? ""))));
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  }
  input.addEventListener("input", () => suggest().catch(showError));
  input.addEventListener("focus", () => { if (!input.value) suggest().catch(showError); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const isOpen = !list.hidden;
    if (event.key === "ArrowDown" && isOpen) mark(at + 1);
    else if (event.key === "ArrowUp" && isOpen) mark(at < 0 ? -1 : at - 1);
    else if ((event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) && isOpen && at >= 0) take(at);
    else if (event.key === "Enter") {
      markInput(event);
      choose({});
    }
    else if (event.key === "Escape" && isOpen) close();
    else if (event.key === "Escape") { input.value = ""; if (chosen.text) choose({}); else leave(); }
    else if (event.key === "ArrowDown") leave();
    else return;
    event.preventDefault();
  });

  const now = chosen.order ?? (chosen.like ? "likeness" : chosen.text ? "best" : "added");
  const shown = Object.entries(ORDERS).filter(([name]) => (name !== "likeness" || chosen.like) && (name !== "best" || chosen.text));
  const order = h("select", { "aria-label": "Order", class: "order", onchange: () => choose({ order: order.value }) },
    ...shown.map(([name, words]) => h("option", { value: name, selected: name === now }, words)));
  const save = h("button", { type: "button", class: "save-search", hidden: !isFiltered(chosen), onclick: () => saveSearch().catch(showError) }, "Save search");

  async function saveSearch() {
    const name = await askText("Name of this search", { value: chosen.text ?? "", button: "Save" });
    if (name === null) return;
    await post("/searches", { name, address: location.search.slice(1) });
    showMessage(`Saved “${name}”.`);
    choose({});
  }
  return { input, field: h("span", { class: "completing searching" }, input, list), order, save };
}

/** Return where the last word of a query begins, and the word. */
function lastToken(text) {
  const quotes = (text.match(/["“”„]/g) ?? []).length;
  const start = quotes % 2 ? text.slice(0, text.search(/[^\s]*["“„][^"“”„]*$/)).length : text.search(/\S*$/);
  return { start, token: text.slice(start) };
}

const quoted = (name) => (/\s/.test(name) ? `"${name}"` : name);

async function optionsFor(token, text, facets) {
  if (!text.trim()) {
    const { searches } = await get("/searches");
    return [...searches.map(({ name, address }) => ({ words: name, note: "saved search", address })), ...TIPS.map(([words, note]) => ({ words, note, insert: words, isField: words.endsWith(":") }))];
  }
  const dash = token.startsWith("-") ? "-" : "";
  const [, field, value] = /^-?(?:(\w+):)?["“„]?(.*)$/.exec(token);
  const wanted = value.toLowerCase();
  if (field === "is") return STATES.filter((one) => one.startsWith(wanted)).map((one) => ({ words: `is:${one}`, insert: `${dash}is:${one}` }));
  if (field === "camera" || field === "lens") {
    const names = Object.entries(facets?.[field === "camera" ? "cameras" : "lenses"] ?? {});
    return names.filter(([name]) => name.toLowerCase().includes(wanted)).map(([name, size]) => ({ words: name, note: size, insert: `${dash}${field}:${quoted(name)}` }));
  }
  if (field === "date") return Object.entries(yearsOf(facets?.months ?? {})).filter(([year]) => year.startsWith(wanted)).reverse().map(([year, size]) => ({ words: year, note: size, insert: `${dash}date:${year}` }));
  if (field && field !== "tag") return [];
  if (!wanted) return [];
  const found = matchingTags(await tags.all(), value).filter((tag) => tag.pictures);
  const fields = field ? [] : TIPS.filter(([words]) => words.endsWith(":") && wanted.length > 1 && words.startsWith(wanted)).map(([words, note]) => ({ words, note, insert: dash + words, isField: true }));
  return [...found.map((tag) => ({ words: readable(tag.name), note: tag.pictures.toLocaleString("en"), insert: `${dash}tag:${quoted(tag.name)}` })), ...fields];
}

export function yearsOf(months) {
  const years = {};
  for (const [month, size] of Object.entries(months)) years[month.slice(0, 4)] = (years[month.slice(0, 4)] ?? 0) + size;
  return years;
}
