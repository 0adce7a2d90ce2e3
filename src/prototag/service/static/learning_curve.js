// How well a tag was learned at each number of its pictures: a small line in its row, a large one in a window.

import { get } from "./api.js";
import { closeBy, h, percent, readable } from "./dom.js";

const LINES = [["precision", "Precision"], ["recall", "Recall"]];

/** The points of all tags, by name. */
export async function curves() {
  const { curves: found } = await get("/curves");
  return new Map(found.map(({ tag, points }) => [tag, points]));
}

function s(name, props = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Where points lie in a box: numbers of pictures double at even steps, shares go from 0 to 1. */
function scales(points, left, right, top, bottom) {
  const [first, last] = [points[0].examples, points.at(-1).examples].map(Math.log2);
  return {
    x: (examples) => (last > first ? left + ((right - left) * (Math.log2(examples) - first)) / (last - first) : (left + right) / 2),
    y: (share) => bottom - (bottom - top) * share,
  };
}

/** One measure: a line through its points, and a dot for each, or for the last where there is little room. */
function drawn(points, what, { x, y }, radius, dots) {
  const known = points.filter((point) => point[what] !== null);
  const at = known.map((point) => [x(point.examples).toFixed(1), y(point[what]).toFixed(1)]);
  const shown = dots ? at : at.slice(-1);
  return s("g", { class: `curve-${what}` },
    s("polyline", { points: at.map((pair) => pair.join(",")).join(" ") }),
    ...shown.map(([cx, cy]) => s("circle", { cx, cy, r: radius })));
}

/** A line of the height of a row. */
export function spark(points) {
  const box = scales(points, 3, 61, 3, 17);
  return s("svg", { class: "spark", viewBox: "0 0 64 20", "aria-hidden": "true" },
    ...LINES.map(([what]) => drawn(points, what, box, 2, false)));
}

/** Numbers of pictures to write below the line: its ends, and between them those with room. */
function ticks(points, x) {
  const found = [points.at(-1).examples];
  for (const { examples } of [points[0], ...points]) {
    if (found.every((other) => Math.abs(x(other) - x(examples)) > 36)) found.push(examples);
  }
  return found;
}

function chart(points) {
  const box = scales(points, 54, 392, 12, 192);
  const { x, y } = box;
  const last = points.at(-1);
  // Names stand at the ends of the lines, apart.
  const ends = LINES.filter(([what]) => last[what] !== null).map(([what, name]) => ({ what, name, at: y(last[what]) }));
  ends.sort((a, b) => a.at - b.at);
  if (ends.length === 2 && ends[1].at - ends[0].at < 16) {
    const middle = Math.min(Math.max((ends[0].at + ends[1].at) / 2, 20), 184);
    [ends[0].at, ends[1].at] = [middle - 8, middle + 8];
  }
  const right = points.length > 1 ? 392 : x(last.examples);
  return s("svg", { class: "chart", viewBox: "0 0 480 226", "aria-hidden": "true" },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
      s("line", { class: "rule", x1: 54, x2: 392, y1: y(share), y2: y(share) }),
      s("text", { x: 46, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
    ]),
    ...ticks(points, x).map((examples) => s("text", { x: x(examples), y: 212, "text-anchor": "middle" }, examples.toLocaleString("en"))),
    ...LINES.map(([what]) => drawn(points, what, box, 3.5, true)),
    ...ends.map(({ what, name, at }) => s("text", { class: `curve-${what} name`, x: right + 9, y: at + 4 }, name)));
}

const table = (points) => h("table", {},
  h("thead", {}, h("tr", {}, ...["Pictures", "Precision", "Recall", "Model"].map((words) => h("th", { scope: "col", class: "number" }, words)))),
  h("tbody", {}, ...points.toReversed().map((point) => h("tr", {},
    h("th", { scope: "row", class: "number" }, point.examples.toLocaleString("en")),
    h("td", { class: "number" }, percent(point.precision)),
    h("td", { class: "number" }, percent(point.recall)),
    h("td", { class: "number" }, String(point.model))))));

const words = (points) => points.length > 1
  ? "What to expect of the tag, each time that it was learned: by the number of pictures that had it then, judged by pictures that were left out."
  : "It was learned once. Each time that you decide on more pictures and it is learned again, a point is added.";

/** The curve of one tag, large, with its numbers. */
export function showCurve(tag, points) {
  const content = points?.length
    ? [h("p", { class: "muted" }, words(points)), chart(points),
      h("p", { class: "axis muted" }, "Pictures with the tag"), h("details", {}, h("summary", {}, "As numbers"), table(points))]
    : [h("p", {}, "It has not been learned yet.")];
  const dialog = h("dialog", { class: "learned", "aria-labelledby": "curve-title" },
    h("h2", { id: "curve-title" }, `How well “${readable(tag)}” is learned`), ...content,
    h("p", { class: "buttons" }, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  closeBy(dialog, "c");
  document.body.append(dialog);
  dialog.showModal();
}
