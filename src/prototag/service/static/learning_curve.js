// Learning curves of a tag: a sparkline in its row, and a chart in a dialog.

import { get } from "./api.js";
import { closeBy, h, percent, readable } from "./dom.js";

const LINES = [["precision", "Precision"], ["recall", "Recall"]];

/** Fetch the points of all tags, by name. */
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

/** Return the scales of a box: numbers of pictures are logarithmic, shares linear from 0 to 1. */
function scales(points, left, right, top, bottom) {
  const [first, last] = [points[0].examples, points.at(-1).examples].map(Math.log2);
  return {
    x: (examples) => (last > first ? left + ((right - left) * (Math.log2(examples) - first)) / (last - first) : (left + right) / 2),
    y: (share) => bottom - (bottom - top) * share,
  };
}

/** Draw one measure: a line, with a dot for each point or for the last one only. */
function drawn(points, what, { x, y }, radius, dots) {
  const known = points.filter((point) => point[what] !== null);
  const at = known.map((point) => [x(point.examples).toFixed(1), y(point[what]).toFixed(1)]);
  const shown = dots ? at : at.slice(-1);
  return s("g", { class: `curve-${what}` },
    s("polyline", { points: at.map((pair) => pair.join(",")).join(" ") }),
    ...shown.map(([cx, cy]) => s("circle", { cx, cy, r: radius })));
}

/** Draw a sparkline. */
export function spark(points) {
  const box = scales(points, 3, 61, 3, 17);
  return s("svg", { class: "spark", viewBox: "0 0 64 20", "aria-hidden": "true" },
    ...LINES.map(([what]) => drawn(points, what, box, 2, false)));
}

/** Return the numbers of pictures for the ticks: both ends, and others that do not overlap. */
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
  // The labels at the ends of the lines must not overlap.
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
  ? "Expected precision and recall by the number of pictures with the tag, estimated by cross-validation. From ten pictures on, all points are measured on the same pictures, so that difficult ones that join later do not lower the curve."
  : "The tag was trained once. Training after more decisions adds points.";

/** Show the learning curve of one tag in a dialog. */
export function showCurve(tag, points) {
  const content = points?.length
    ? [h("p", { class: "muted" }, words(points)), chart(points),
      h("p", { class: "axis muted" }, "Pictures with the tag"), h("details", {}, h("summary", {}, "As numbers"), table(points))]
    : [h("p", {}, "The tag has not been trained yet.")];
  const dialog = h("dialog", { class: "learned", "aria-labelledby": "curve-title" },
    h("h2", { id: "curve-title" }, `Learning curve of “${readable(tag)}”`), ...content,
    h("p", { class: "buttons" }, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  closeBy(dialog, "c");
  document.body.append(dialog);
  dialog.showModal();
}
