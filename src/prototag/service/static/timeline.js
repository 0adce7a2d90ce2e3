// The timeline: pictures by month of capture, as bars that filter.

import { count, h } from "./dom.js";
import { dateWords } from "./filters.js";

const LABEL_PIXELS = 38; // of a year
const monthNumber = (month) => 12 * Number(month.slice(0, 4)) + Number(month.slice(5)) - 1;

/** Fill the timeline. `choose(changes)` filters by a month, a year, or a range that is dragged. */
export function fillTimeline(room, { months, undated, pictures }, chosen, choose) {
  const every = Object.entries(months);
  room.hidden = every.length < 2 && !chosen.date;
  if (room.hidden) return room.replaceChildren();
  const first = monthNumber(every[0]?.[0] ?? chosen.date);
  const last = monthNumber(every.at(-1)?.[0] ?? chosen.date);
  const span = last - first + 1;
  const most = Math.max(...every.map(([, size]) => size), 1);
  const at = (month) => (100 * (monthNumber(month) - first)) / span;
  let from = null;
  const bars = every.map(([month, size], i) => {
    const words = `${dateWords(month)}: ${count(size, "picture")}`;
    const bar = h("button", { type: "button", title: words, "aria-label": words, "aria-pressed": String(chosen.date === month), tabindex: i ? "-1" : "0", data: { month } },
      h("span", {}));
    Object.assign(bar.style, { left: `${at(month)}%`, width: `${100 / span}%` });
    bar.firstChild.style.height = `${Math.max(8, 100 * Math.sqrt(size / most))}%`;
    return bar;
  });
  const monthOf = (event) => event.target.closest?.("[data-month]")?.dataset.month;
  const strip = h("div", { class: "bars", role: "group", "aria-label": "Pictures by month" }, ...bars);
  strip.addEventListener("pointerdown", (event) => { from = monthOf(event); });
  strip.addEventListener("pointerup", (event) => {
    const to = monthOf(event);
    if (!from || !to) return;
    const [start, end] = [from, to].sort();
    from = null;
    const date = start === end ? start : `${start}..${end}`;
    choose({ date: chosen.date === date ? null : date });
  });
  strip.addEventListener("click", (event) => { if (!event.detail) choose({ date: monthOf(event) }); }); // by the keyboard
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const place = bars.indexOf(document.activeElement);
    if (!step || !bars[place + step]) return;
    event.preventDefault();
    event.stopPropagation();
    bars[place].tabIndex = -1;
    bars[place + step].tabIndex = 0;
    bars[place + step].focus();
  });
  const years = [...new Set(every.map(([month]) => month.slice(0, 4)))];
  const least = (100 * LABEL_PIXELS) / (room.clientWidth || innerWidth);
  let before = -Infinity;
  const labels = years.filter((year) => {
    const place = Math.max(0, at(`${year}-01`));
    if (place - before < least || place > 100 - least) return false;
    before = place;
    return true;
  }).map((year) => {
    const label = h("button", { type: "button", title: `All of ${year}`, "aria-pressed": String(chosen.date === year), onclick: () => choose({ date: chosen.date === year ? null : year }) }, year);
    label.style.left = `${Math.max(0, at(`${year}-01`))}%`;
    return label;
  });
  room.replaceChildren(strip, h("div", { class: "years" }, ...labels));
  room.title = undated && undated < pictures ? `${count(undated, "picture")} without a date` : "";
}
