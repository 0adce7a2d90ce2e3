// Facets of the library: states, tags, cameras, lenses and folders with their pictures within the
// current filter, and saved searches.

import { get, post } from "./api.js";
import { h, readable } from "./dom.js";
import { STATES, requestOf } from "./filters.js";
import { showError } from "./toast.js";

const MAX_SHOWN = 30;
const MAX_SHOWN_CAMERAS = 8;

/** Fill the side bar; `chosen` are the current filters, `choose(changes)` sets others. */
export async function fillFacets(side, chosen, choose) {
  const [counts, { searches }] = await Promise.all([get("/facets", requestOf(chosen, false)), get("/searches")]);
  const { tags, folders, states, cameras, lenses } = counts;
  const item = (words, size, is, changes, data = {}) => h("li", {}, h("button", { type: "button", "aria-pressed": String(is), onclick: () => choose(changes), data },
    h("bdi", {}, words), h("small", {}, size.toLocaleString("en"))));
  const list = (title, items, most = MAX_SHOWN) => items.length ? [h("h2", {}, title), h("ul", {}, ...items.slice(0, most), items.length > most ? more(items.slice(most)) : null)] : [];
  const named = (title, values, name) => (Object.keys(values).length > 1 || chosen[name]
    ? list(title, Object.entries(values).map(([value, size]) => item(value, size, chosen[name] === value, { [name]: chosen[name] === value ? null : value })), MAX_SHOWN_CAMERAS) : []);
  const paths = Object.keys(folders);
  const common = shared(paths);
  const fill = (saved) => side.replaceChildren(
    ...(saved.length ? [h("h2", {}, "Saved searches"), h("ul", {}, ...saved.map(savedItem))] : []),
    ...list("State", Object.entries(STATES).filter(([state]) => states[state] || chosen.state === state)
      .map(([state, words]) => item(words, states[state], chosen.state === state, { state: chosen.state === state ? null : state }))),
    ...list("Tags", Object.entries(tags).map(([tag, size]) => item(readable(tag), size, chosen.tag.includes(tag),
      { tag: chosen.tag.includes(tag) ? chosen.tag.filter((other) => other !== tag) : [...chosen.tag, tag] }, { dropTag: tag }))),
    ...named("Cameras", cameras, "camera"),
    ...named("Lenses", lenses, "lens"),
    ...(paths.length > 1 ? list("Folders", paths.map((path) => item(path.slice(common) || path, folders[path], chosen.folder === path, { folder: chosen.folder === path ? null : path }))) : []));
  const savedItem = ({ name, address }) => h("li", { class: "saved" },
    h("button", { type: "button", "aria-pressed": String(location.search.slice(1) === address), onclick: () => choose(null, address) }, h("bdi", {}, name)),
    h("button", { type: "button", class: "delete", "aria-label": `Delete the search ${name}`, onclick: () => post("/searches/delete", { name }).then(({ searches: left }) => fill(left), showError) }, "✕"));
  fill(searches);
  return counts;
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
