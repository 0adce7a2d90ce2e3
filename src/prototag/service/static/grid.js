// Virtual grid of thumbnails: only visible cells have elements.

import { h, thumbnail } from "./dom.js";
import { sharpen } from "./sharp_thumbnails.js";

const OVERSCAN_ROWS = 3; // rows above and below the visible ones
const STILL_MS = 120; // without scrolling, before pictures are replaced by sharper ones
const LONG_PRESS_MS = 450;

/**
 * Create a grid in a scrolling element. `decorate(element, place)` shows the selection of a cell.
 */
export function virtualGrid(scroller, { decorate, onopen, onenlarge, onmove }) {
  const room = h("div", { class: "virtual", role: "listbox", "aria-multiselectable": "true", "aria-label": "Pictures", tabindex: "-1" });
  scroller.append(room);
  let numbers = [];
  let cursor = 0;
  let columns = 1;
  let rowHeight = 1; // pixels of a row
  const made = new Map(); // by place

  function measure() {
    const style = getComputedStyle(room);
    const least = parseFloat(style.getPropertyValue("--cell")) || 150;
    const wide = room.clientWidth;
    if (!wide) return;
    columns = Math.max(2, Math.floor(wide / least));
    rowHeight = Math.round((wide / columns) * 0.75);
    room.style.height = `${Math.ceil(numbers.length / columns) * rowHeight}px`;
    const isHere = room.contains(document.activeElement);
    for (const element of made.values()) element.remove();
    made.clear();
    draw();
    if (isHere && numbers.length) cellAt(cursor).focus({ preventScroll: true });
  }
  function draw() {
    const top = scroller.scrollTop - room.offsetTop;
    const first = Math.max(0, (Math.floor(top / rowHeight) - OVERSCAN_ROWS) * columns);
    const last = Math.min(numbers.length, (Math.ceil((top + scroller.clientHeight) / rowHeight) + OVERSCAN_ROWS) * columns);
    for (const [place, element] of made) {
      if ((place < first || place >= last) && place !== cursor) {
        element.remove();
        made.delete(place);
      }
    }
    for (let place = first; place < last; place += 1) cellAt(place);
    clearTimeout(still);
    still = setTimeout(sharpenShown, STILL_MS);
  }
  let still = null;
  function sharpenShown() {
    const cells = [...made].filter(([place]) => place < numbers.length).map(([place, element]) => [element.firstElementChild, numbers[place]]);
    sharpen(cells, room.clientWidth / columns);
  }
  /** Return the places of the cells that a box in client coordinates touches. */
  function hit(box) {
    const at = room.getBoundingClientRect();
    const width = at.width / columns;
    const [low, high] = [Math.max(Math.floor((box.left - at.left) / width), 0), Math.min(Math.floor((box.right - at.left) / width), columns - 1)];
    const [top, bottom] = [Math.max(Math.floor((box.top - at.top) / rowHeight), 0), Math.floor((box.bottom - at.top) / rowHeight)];
    const places = [];
    for (let row = top; row <= bottom; row += 1) {
      for (let column = low; column <= high; column += 1) {
        const place = row * columns + column;
        if (place < numbers.length) places.push(place);
      }
    }
    return places;
  }
  function cellAt(place) {
    if (made.has(place)) return made.get(place);
    const element = h("div", { role: "option", "aria-selected": "false", tabindex: place === cursor ? "0" : "-1", "aria-setsize": numbers.length, "aria-posinset": place + 1, "aria-label": `Picture ${numbers[place]}`, data: { place } },
      h("img", { src: thumbnail(numbers[place]), alt: "", draggable: "false" }), h("span", { class: "badge", "aria-hidden": "true" }), h("span", { class: "enlarge", "aria-hidden": "true", title: "Open large (o)" }));
    const width = 100 / columns;
    Object.assign(element.style, { left: `${(place % columns) * width}%`, top: `${Math.floor(place / columns) * rowHeight}px`, width: `${width}%`, height: `${rowHeight}px` });
    room.append(element);
    made.set(place, element);
    decorate(element, place);
    return element;
  }
  function move(to, how) {
    if (!numbers.length) return;
    const before = made.get(cursor);
    if (before) before.tabIndex = -1;
    cursor = Math.min(Math.max(to, 0), numbers.length - 1);
    const top = room.offsetTop + Math.floor(cursor / columns) * rowHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + rowHeight - scroller.clientHeight;
    const element = cellAt(cursor);
    element.tabIndex = 0;
    element.focus({ preventScroll: true });
    onmove(cursor, how);
  }

  let asked = false;
  scroller.addEventListener("scroll", () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  }, { passive: true });
  const watcher = new ResizeObserver(measure);
  watcher.observe(room.parentElement);
  // On a touch screen a tap opens a picture, and a long press selects it; after that, taps select.
  let pressed = null;
  let wasLong = false;
  room.addEventListener("pointerdown", (event) => {
    wasLong = false;
    const element = event.target.closest("[role=option]");
    if (event.pointerType !== "touch" || !element) return;
    pressed = setTimeout(() => {
      wasLong = true;
      move(Number(element.dataset.place), { click: true, add: true });
    }, LONG_PRESS_MS);
  });
  for (const name of ["pointerup", "pointermove", "pointercancel"]) room.addEventListener(name, (event) => { if (name !== "pointermove" || Math.hypot(event.movementX, event.movementY) > 3) clearTimeout(pressed); });
  room.addEventListener("contextmenu", (event) => { if (wasLong) event.preventDefault(); });
  room.addEventListener("click", (event) => {
    const element = event.target.closest("[role=option]");
    if (!element || wasLong) return;
    const place = Number(element.dataset.place);
    if (event.target.matches(".enlarge")) {
      move(place, {});
      return onenlarge(place);
    }
    const isTouch = event.pointerType === "touch";
    move(place, { click: true, isTouch, range: event.shiftKey, add: event.ctrlKey || event.metaKey || Boolean(event.target.closest(".badge")) });
  });
  room.addEventListener("dblclick", (event) => { if (event.target.closest("[role=option]") && !event.target.closest(".badge, .enlarge")) onopen(cursor); });

  return {
    room,
    set(found) { numbers = found; cursor = Math.min(cursor, Math.max(found.length - 1, 0)); measure(); },
    move,
    hit,
    measure,
    get cellWidth() { return room.clientWidth / columns; },
    redraw() { for (const [place, element] of made) decorate(element, place); },
    get cursor() { return cursor; },
    get columns() { return columns; },
    get page() { return Math.max(1, Math.floor(scroller.clientHeight / rowHeight) - 1) * columns; },
    close() { watcher.disconnect(); clearTimeout(still); clearTimeout(pressed); },
  };
}
