// Selecting pictures by drawing a rectangle, and dragging a selection onto a tag.

import { h } from "./dom.js";

const START_PX = 6; // a shorter movement is a click
const EDGE_PX = 40; // near the edge of the scroller, the grid scrolls
const SCROLL_PX = 18; // per frame

/**
 * Let a mouse draw a rectangle in a grid, or drag its selection.
 *
 * `hit(box)` returns the keys of the cells that a box in client coordinates touches. `band(keys,
 * {add, ended})` shows a selection. `dragged(event)` returns the words for what is dragged if a drag
 * begins on the selection, else null; `drop(target)` takes the element with data-drop-tag.
 */
export function dragSelect(scroller, room, { hit, band, dragged = () => null, drop = () => {} }) {
  let from = null; // where the pointer went down, relative to the room
  let carried = null; // what follows the pointer, with its words
  let box = null;
  let last = null;
  let frame = 0;

  scroller.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button || event.target.closest("button, input, a")) return;
    if (event.offsetX > scroller.clientWidth && event.target === scroller) return; // the scroll bar
    const at = room.getBoundingClientRect();
    from = { x: event.clientX - at.left, y: event.clientY - at.top, add: event.ctrlKey || event.metaKey || event.shiftKey, words: dragged(event), id: event.pointerId, clientX: event.clientX, clientY: event.clientY };
  });
  const onMove = (event) => {
    if (!from || event.pointerId !== from.id) return;
    last = event;
    if (!box && !carried) {
      if (Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) < START_PX) return;
      if (from.words) carried = document.body.appendChild(h("div", { class: "carried" }, from.words));
      else box = document.body.appendChild(h("div", { class: "band" }));
      document.body.classList.add("dragging");
    }
    event.preventDefault();
    if (carried) carry(event);
    else draw();
  };
  function carry(event) {
    Object.assign(carried.style, { left: `${event.clientX + 12}px`, top: `${event.clientY + 12}px` });
    const target = dropTarget(event);
    for (const other of document.querySelectorAll(".drop-here")) if (other !== target) other.classList.remove("drop-here");
    target?.classList.add("drop-here");
  }
  const dropTarget = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-drop-tag]") ?? null;
  function draw() {
    const at = room.getBoundingClientRect();
    const [x, y] = [from.x + at.left, from.y + at.top];
    const rect = { left: Math.min(x, last.clientX), right: Math.max(x, last.clientX), top: Math.min(y, last.clientY), bottom: Math.max(y, last.clientY) };
    const view = scroller.getBoundingClientRect();
    const shown = { left: Math.max(rect.left, view.left), right: Math.min(rect.right, view.right), top: Math.max(rect.top, view.top), bottom: Math.min(rect.bottom, view.bottom) };
    Object.assign(box.style, { left: `${shown.left}px`, top: `${shown.top}px`, width: `${Math.max(shown.right - shown.left, 0)}px`, height: `${Math.max(shown.bottom - shown.top, 0)}px` });
    band(hit(rect), { add: from.add, ended: false });
    cancelAnimationFrame(frame);
    const by = last.clientY > view.bottom - EDGE_PX ? SCROLL_PX : last.clientY < view.top + EDGE_PX ? -SCROLL_PX : 0;
    const before = scroller.scrollTop;
    if (by) {
      scroller.scrollTop += by;
      if (scroller.scrollTop !== before) frame = requestAnimationFrame(() => box && draw());
    }
  }
  const onUp = (event) => {
    if (!from || event.pointerId !== from.id) return;
    const wasDragging = Boolean(box || carried);
    if (box) {
      const keys = hitOf();
      end();
      band(keys, { add: from.add, ended: true });
    } else if (carried) {
      const target = dropTarget(event);
      end();
      if (target) drop(target);
    }
    from = null;
    if (!wasDragging) return;
    // The click that follows belongs to the drag.
    const swallow = (click) => { click.stopPropagation(); click.preventDefault(); };
    addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }), 0);
  };
  function hitOf() {
    const at = room.getBoundingClientRect();
    const [x, y] = [from.x + at.left, from.y + at.top];
    return hit({ left: Math.min(x, last.clientX), right: Math.max(x, last.clientX), top: Math.min(y, last.clientY), bottom: Math.max(y, last.clientY) });
  }
  function end() {
    cancelAnimationFrame(frame);
    box?.remove();
    carried?.remove();
    box = carried = null;
    document.body.classList.remove("dragging");
    for (const other of document.querySelectorAll(".drop-here")) other.classList.remove("drop-here");
  }
  const onCancel = () => { end(); from = null; };
  addEventListener("pointermove", onMove);
  addEventListener("pointerup", onUp);
  addEventListener("pointercancel", onCancel);
  return () => {
    onCancel();
    removeEventListener("pointermove", onMove);
    removeEventListener("pointerup", onUp);
    removeEventListener("pointercancel", onCancel);
  };
}
