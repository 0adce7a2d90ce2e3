// One cell of a review batch. Its label has everything that the stylesheet shows.

import { count, h, leaf, thumbnail } from "./dom.js";

const VERDICT_CLASSES = { accepted: "yes", rejected: "no" };

/** Return the probability of a cell; nothing if pictures are ranked by similarity only. */
const share = (cell, isRanked) => (isRanked ? "" : `${Math.round(100 * cell.probability)}%`);

export function cellElement(cell, withTag, isRanked) {
  return h("li", { role: "option", tabindex: "-1", "aria-selected": "false" },
    h("span", { class: "shown" }, h("img", { src: thumbnail(cell.picture), alt: "", draggable: "false" }),
      h("span", { class: "badge", "aria-hidden": "true" }),
      cell.stack.length > 1 ? h("span", { class: "stack", data: { words: `×${cell.stack.length}` } }) : null,
      h("span", { class: "enlarge", "aria-hidden": "true", title: "Open large (o)" })),
    h("span", { class: "foot", data: { tag: withTag ? leaf(cell.tag) : "", share: share(cell, isRanked) } }));
}

/** Show the decision and the selection of a cell. */
export function show(element, cell, { isCertain, isSelected, isFirstBelow, withTag, isRanked }) {
  const shown = [cell.verdict, isCertain, isSelected, isFirstBelow].join();
  if (element.dataset.shown === shown) return; // restyling forty cells takes longer than a key may
  element.dataset.shown = shown;
  element.className = cell.verdict ? VERDICT_CLASSES[cell.verdict] : isCertain ? "certain" : "doubtful";
  element.classList.toggle("selected", isSelected);
  element.classList.toggle("line", isFirstBelow);
  element.setAttribute("aria-selected", String(isSelected));
  const state = cell.verdict ?? (isCertain ? "undecided, above the threshold" : "undecided, below the threshold");
  const many = cell.stack.length > 1 ? `, ${count(cell.stack.length, "near-duplicate")}` : "";
  const tag = withTag ? `, ${cell.tag}` : "";
  element.setAttribute("aria-label", `${cell.name || `picture ${cell.picture}`}${tag}${isRanked ? "" : `, ${share(cell, isRanked)}`}${many}: ${state}`);
}
