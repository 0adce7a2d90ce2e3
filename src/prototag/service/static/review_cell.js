// One cell of a contact sheet. What it shows is in its label; the style sheet draws it for the eye.

import { count, h, leaf, thumbnail } from "./dom.js";

const SAID = { accepted: "yes", rejected: "no" };

/** How likely a cell is right; nothing where pictures are ranked by similarity only. */
const share = (cell, isRanked) => (isRanked ? "" : `${Math.round(100 * cell.probability)} %`);

export function cellElement(cell, withTag, isRanked) {
  return h("li", { role: "option", tabindex: "-1", "aria-selected": "false" },
    h("img", { src: thumbnail(cell.picture), alt: "", draggable: "false" }),
    h("span", { class: "badge", "aria-hidden": "true" }),
    cell.stack.length > 1 ? h("span", { class: "stack", data: { words: `×${cell.stack.length}` } }) : null,
    h("span", { class: "foot", data: { tag: withTag ? leaf(cell.tag) : "", share: share(cell, isRanked) } }));
}

/** Show what is said of a cell. */
export function show(element, cell, { isCertain, isSelected, isFirstBelow, withTag, isRanked }) {
  element.className = cell.verdict ? SAID[cell.verdict] : isCertain ? "certain" : "doubtful";
  element.classList.toggle("selected", isSelected);
  element.classList.toggle("line", isFirstBelow);
  element.setAttribute("aria-selected", String(isSelected));
  const said = cell.verdict ? SAID[cell.verdict] : isCertain ? "open, above the line" : "open, below the line";
  const many = cell.stack.length > 1 ? `, ${count(cell.stack.length, "look-alike")}` : "";
  const tag = withTag ? `, ${cell.tag}` : "";
  element.setAttribute("aria-label", `${cell.name || `picture ${cell.picture}`}${tag}${isRanked ? "" : `, ${share(cell, isRanked)}`}${many}: ${said}`);
}
