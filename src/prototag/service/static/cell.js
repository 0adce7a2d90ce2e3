// One cell of a contact sheet. What it shows is in its label; the style sheet draws it for the eye.

import { count, h, leaf, thumbnail } from "./dom.js";

const SAID = { accepted: "yes", rejected: "no" };

export function cellElement(cell, withTag) {
  return h("li", { role: "option", tabindex: "-1", "aria-selected": "false" },
    h("img", { src: thumbnail(cell.picture), alt: "", draggable: "false" }),
    h("span", { class: "badge", "aria-hidden": "true" }),
    cell.stack.length > 1 ? h("span", { class: "stack", data: { words: `×${cell.stack.length}` } }) : null,
    h("span", { class: "foot", data: { tag: withTag ? leaf(cell.tag) : "", share: `${Math.round(100 * cell.probability)} %` } }));
}

/** Show what is said of a cell. */
export function show(element, cell, { isCertain, isSelected, isFirstBelow, withTag }) {
  element.className = cell.verdict ? SAID[cell.verdict] : isCertain ? "certain" : "doubtful";
  element.classList.toggle("selected", isSelected);
  element.classList.toggle("line", isFirstBelow);
  element.setAttribute("aria-selected", String(isSelected));
  const said = cell.verdict ? SAID[cell.verdict] : isCertain ? "open, above the line" : "open, below the line";
  const many = cell.stack.length > 1 ? `, ${count(cell.stack.length, "look-alike")}` : "";
  const tag = withTag ? `, ${cell.tag}` : "";
  element.setAttribute("aria-label", `${cell.name || `picture ${cell.picture}`}${tag}, ${Math.round(100 * cell.probability)} %${many}: ${said}`);
}
