// Facets of the library: states, tags and folders with the number of their pictures.

import { get } from "./api.js";
import { h, readable } from "./dom.js";

const STATES = {
  untagged: "Untagged", tagged: "Tagged", suggested: "With suggestions",
  decided: "With decisions", complete: "Complete", missing: "File missing",
};
const MAX_SHOWN = 30;

/** Fill the side bar; `chosen` are the current filters, `choose(changes)` sets others. */
export async function fillFacets(side, chosen, choose) {
  const { tags, folders, states } = await get("/facets");
  const item = (words, size, is, changes, tag = null) => h("li", {}, h("button", { type: "button", "data-drop-tag": tag, "aria-pressed": String(is), onclick: () => choose(changes) },
    h("bdi", {}, words), h("small", {}, size.toLocaleString("en"))));
  const list = (title, items) => items.length ? [h("h2", {}, title), h("ul", {}, ...items.slice(0, MAX_SHOWN), items.length > MAX_SHOWN ? more(items.slice(MAX_SHOWN)) : null)] : [];
  const paths = Object.keys(folders);
  const common = shared(paths);
  side.replaceChildren(
    ...list("State", Object.entries(STATES).filter(([state]) => states[state] || chosen.state === state)
      .map(([state, words]) => item(words, states[state], chosen.state === state, { state: chosen.state === state ? null : state }))),
    ...list("Tags", Object.entries(tags).map(([tag, size]) => item(readable(tag), size, chosen.tag.includes(tag),
      { tag: chosen.tag.includes(tag) ? chosen.tag.filter((other) => other !== tag) : [...chosen.tag, tag] }, tag))),
    ...(paths.length > 1 ? list("Folders", paths.map((path) => item(path.slice(common) || path, folders[path], chosen.folder === path, { folder: chosen.folder === path ? null : path }))) : []));
}

function more(items) {
  const button = h("button", { type: "button", onclick: () => button.parentElement.replaceWith(...items) }, `${items.length} more`);
  return h("li", { class: "more" }, button);
}

/** Return the length of the common parent folder of all paths. */
function shared(paths) {
  if (paths.length < 2) return 0;
  let size = 0;
  while (size < paths[0].length && paths.every((path) => path[size] === paths[0][size])) size += 1;
  return paths[0].lastIndexOf("/", size) + 1;
}
