// Tag field with autocompletion: arrow keys select, Enter or Tab accepts.

import { h, readable } from "./dom.js";
import * as tags from "./tag_store.js";

const MAX_SHOWN = 8;
let numbered = 0;

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Return matching tags: exact matches, then prefixes, then others, frequent ones first. */
export function matchingTags(known, text) {
  const wanted = plain(text.trim());
  if (!wanted) return [];
  const rank = (name) => {
    const parts = plain(name).split("|");
    const [last] = parts.slice(-1);
    return last === wanted ? 0 : last.startsWith(wanted) ? 1 : parts.some((part) => part.startsWith(wanted)) ? 2 : plain(name).includes(wanted) ? 3 : 4;
  };
  return known
    .map((tag) => ({ tag, rank: rank(tag.name) }))
    .filter((one) => one.rank < 4)
    .sort((a, b) => a.rank - b.rank || b.tag.pictures - a.tag.pictures)
    .slice(0, MAX_SHOWN)
    .map((one) => one.tag);
}

/** Wrap an input in a field with a list of matching tags. */
export function tagField(input) {
  const id = `tags-${(numbered += 1)}`;
  const list = h("ul", { role: "listbox", id, hidden: true, "aria-label": "Tags" });
  let at = -1;
  const field = h("span", { class: "completing" }, input, list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list" })) input.setAttribute(name, value);

  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function take(option) {
    input.value = option.dataset.name;
    close();
  }
  function choose(place) {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = (place + list.children.length) % list.children.length;
    list.children[at].setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", list.children[at].id);
  }
  input.addEventListener("input", async () => {
    const found = matchingTags(await tags.all(), input.value);
    list.replaceChildren(...found.map((tag, i) =>
      h("li", { role: "option", id: `${id}-${i}`, "aria-selected": "false", data: { name: tag.name }, onpointerdown: (event) => (event.preventDefault(), take(event.currentTarget)) },
        h("bdi", {}, readable(tag.name)), " ", h("small", {}, tag.pictures))));
    at = -1;
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at < 0 ? -1 : at - 1);
    else if ((event.key === "Enter" && at >= 0) || (event.key === "Tab" && !event.shiftKey)) take(list.children[Math.max(at, 0)]);
    else if (event.key === "Escape") close();
    else return;
    if (event.key !== "Enter") event.preventDefault();
  });
  input.addEventListener("blur", close);
  return field;
}
