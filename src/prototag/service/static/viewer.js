// The viewer: pictures large over the current screen, one to four side by side, with the question of
// the screen. Arrows step, `a` and `x` answer; zooming and panning apply to all panes.

import { button, fill, find, fullSize, h, thumbnail } from "./dom.js";
import { fetchLarge, large } from "./picture_prefetch.js";
import { measurePaint } from "./perf.js";
import { Zoom, zoomGestures } from "./zoom.js";
import * as keys from "./keyboard.js";

const MAX_PANES = 4;
const PAN_PX = 120; // of one key press
const FULL_SIZE_MS = 150; // pause before pictures in full size are fetched
const SWIPE_PX = 70;

/**
 * Open the viewer over `main`.
 *
 * `count()` is the number of pictures; `item(i)` describes one as {picture, name, verdict, facts}.
 * `question` has {title, accept, reject, answer(i, verdict)} for pictures to decide on, or is null.
 * `more(i)` goes to the screen of a picture; `closed(i)` is called at the end. Returns {refresh, close}.
 */
export function openViewer(main, { count, item, at, panes = 1, question = null, more, closed }) {
  const zoom = new Zoom();
  const title = h("h2", {}, question?.title ?? "");
  const place = h("span", { class: "place" });
  const shares = h("span", { class: "group compare", role: "group", "aria-label": "Pictures side by side" },
    ...[1, 2, 3, 4].map((n) => h("button", { type: "button", "aria-label": n === 1 ? "One picture" : `Compare ${n} pictures`, onclick: () => setPanes(n) }, String(n))));
  const zoomButton = button("100%", "f", () => { zoom.toggle(focusedPane()); show(); }, { class: "zoom-button" });
  const room = h("div", { class: "panes" });
  const answers = question ? [
    h("span", { class: "group" },
      button(question.accept, "a", () => answer("accepted"), { class: "yes-button" }),
      button(question.reject, "x", () => answer("rejected"), { class: "no-button" }))] : [];
  const layer = h("section", { class: "viewer", role: "dialog", "aria-modal": "true", "aria-label": "Large picture", tabindex: "-1" },
    h("header", {}, title, place, shares, zoomButton,
      more ? button("All tags", "t", () => more(at)) : null,
      button("Close", "Esc", close, { class: "close" })),
    room,
    h("footer", {}, button("←", "", () => step(-1), { "aria-label": "Previous picture" }), ...answers, button("→", "", () => step(1), { "aria-label": "Next picture" })));
  const covered = [...main.children, ...document.querySelectorAll(".bar, .skip")];
  let shown = []; // {i, picture, figure, element} of each pane; `element` is the frame of the picture
  let fullTimer = null;
  let isOpen = true;

  const focusedPane = () => shown.find((pane) => pane.i === at)?.element ?? room.firstElementChild;

  function first() {
    const size = Math.min(panes, count());
    const start = shown.length === size && shown[0] && shown[0].i <= at && at < shown[0].i + size ? shown[0].i : at;
    return Math.max(0, Math.min(start, count() - size));
  }
  function show() {
    const start = first();
    const size = Math.min(panes, count());
    room.dataset.panes = size;
    const wanted = Array.from({ length: size }, (_, k) => start + k);
    if (wanted.length !== shown.length || wanted.some((i, k) => shown[k].i !== i || shown[k].picture !== item(i).picture)) {
      shown = wanted.map(pane);
      room.replaceChildren(...shown.map((one) => one.figure));
    }
    for (const one of shown) describe(one);
    place.textContent = `${at + 1} of ${count().toLocaleString("en")}`;
    for (const [k, choice] of [...shares.children].entries()) choice.setAttribute("aria-pressed", String(k + 1 === panes));
    find("span", zoomButton).textContent = zoom.isFit ? "100%" : "Fit";
    for (const one of shown) zoom.show(one.element);
    clearTimeout(fullTimer);
    if (!zoom.isFit) fullTimer = setTimeout(loadFull, FULL_SIZE_MS);
  }
  function pane(i) {
    const { picture } = item(i);
    const ready = large(picture);
    const image = ready ?? h("img", { src: thumbnail(picture), alt: "", draggable: "false" });
    image.draggable = false;
    image.style.cssText = "";
    const frame = h("div", { class: "frame" }, image);
    const figure = h("figure", { class: "pane", data: { picture } }, frame, h("figcaption", {}));
    zoomGestures(frame, zoom, show);
    swipes(frame);
    frame.addEventListener("pointerdown", () => { if (at !== i) { at = i; show(); } });
    return { i, picture, element: frame, figure };
  }
  function describe({ i, figure, element }) {
    const { name, verdict, facts } = item(i);
    figure.className = `pane${verdict ? ` ${verdict}` : ""}${i === at ? " current" : ""}`;
    const state = { accepted: "✓ accepted", rejected: "✕ rejected" }[verdict] ?? "";
    fill(find("figcaption", figure), h("span", { class: "name" }, name), facts ? h("span", { class: "facts" }, facts) : null, state ? h("strong", {}, state) : null);
    find("img", element).alt = name;
  }
  function load(name) {
    const near = [...shown.map((one) => one.i), at + 1, at + 2, at - 1, at + 3].filter((i, k, all) => i >= 0 && i < count() && all.indexOf(i) === k);
    fetchLarge(near.map((i) => item(i).picture), arrived);
    if (name) measure(name);
  }
  function arrived(picture) {
    const one = shown.find((other) => other.picture === picture);
    if (!isOpen || !one || !large(picture) || one.element.dataset.full) return;
    replace(one, large(picture));
  }
  function replace(one, image) {
    image.draggable = false;
    find("img", one.element).replaceWith(image);
    describe(one);
    zoom.show(one.element);
  }
  /** Replace the pictures by those of full size, which are needed to see single pixels. */
  async function loadFull() {
    for (const one of [...shown].sort((a, b) => Math.abs(a.i - at) - Math.abs(b.i - at))) {
      if (one.element.dataset.full) continue;
      one.element.classList.add("loading");
      const image = new Image();
      image.src = fullSize(one.picture);
      const isReady = await image.decode().then(() => true, () => false);
      one.element.classList.remove("loading");
      if (!isOpen || !shown.includes(one)) return;
      if (!isReady) continue;
      one.element.dataset.full = `${image.naturalWidth}x${image.naturalHeight}`;
      replace(one, image);
    }
  }
  function measure(name) {
    const { picture } = item(at);
    const began = performance.now();
    const sharp = new Promise((resolve) => {
      const look = () => (large(picture) || !isOpen || performance.now() - began > 5000 ? resolve() : requestAnimationFrame(look));
      look();
    });
    measurePaint(`${name}, first paint`, find("img", focusedPane())?.decode().catch(() => {}));
    measurePaint(name, sharp);
  }
  function setPanes(n) {
    panes = Math.min(n, MAX_PANES);
    shown = [];
    show();
    load();
    layer.focus({ preventScroll: true });
  }
  function step(by) {
    const to = at + by;
    if (to < 0 || to >= count()) return;
    at = to;
    show();
    load("large picture, next");
  }
  function answer(verdict) {
    if (!question) return;
    question.answer(at, verdict);
    if (verdict) step(1);
    show();
    measurePaint("large picture, answer");
  }
  function pan(x, y) {
    if (zoom.isFit) return false;
    zoom.pan(focusedPane(), x, y);
    show();
  }
  function close() {
    if (!isOpen) return;
    isOpen = false;
    clearTimeout(fullTimer);
    uncover();
    layer.remove();
    for (const one of covered) one.inert = false;
    closed?.(at);
  }

  /** On a touch screen: right accepts, left rejects, up steps, down closes; without a question, left and right step. */
  function swipes(frame) {
    let from = null;
    frame.addEventListener("pointerdown", (event) => (from = event.pointerType === "touch" && zoom.isFit && event.isPrimary ? event : null));
    frame.addEventListener("pointermove", (event) => {
      if (!from || event.pointerId !== from.pointerId || !zoom.isFit) return;
      const x = event.clientX - from.clientX;
      find("img", frame).style.transform = `translateX(${x}px)`;
      frame.dataset.swipe = !question || Math.abs(x) < SWIPE_PX ? "" : x > 0 ? "accept" : "reject";
    });
    const end = (event) => {
      if (!from) return;
      const [x, y] = [event.clientX - from.clientX, event.clientY - from.clientY];
      from = null;
      frame.dataset.swipe = "";
      find("img", frame).style.transform = "";
      if (event.type === "pointercancel" || !zoom.isFit) return;
      if (Math.abs(x) > SWIPE_PX && Math.abs(x) > 1.5 * Math.abs(y)) question ? answer(x > 0 ? "accepted" : "rejected") : step(x < 0 ? 1 : -1);
      else if (y < -SWIPE_PX) step(1);
      else if (y > SWIPE_PX) close();
    };
    frame.addEventListener("pointerup", end);
    frame.addEventListener("pointercancel", end);
  }

  for (const one of covered) one.inert = true;
  main.append(layer);
  const panning = { ArrowLeft: [PAN_PX, 0], ArrowRight: [-PAN_PX, 0], ArrowUp: [0, PAN_PX], ArrowDown: [0, -PAN_PX] };
  const uncover = keys.cover("Large picture", [
    { keys: ["ArrowRight", "ArrowDown"], repeats: true, shown: ["ArrowLeft", "ArrowRight"], words: "Previous or next picture", run: () => step(1) },
    { keys: ["ArrowLeft", "ArrowUp"], repeats: true, run: () => step(-1) },
    ...(question ? [
      { keys: ["a", " "], words: question.accept, run: () => answer("accepted") },
      { keys: ["x"], words: question.reject, run: () => answer("rejected") },
      { keys: ["Backspace"], words: "Clear the answer", run: () => answer(null) }] : []),
    { keys: ["f"], words: "100%, or the whole picture (also by a click)", run: () => { zoom.toggle(focusedPane()); show(); } },
    { keys: ["+", "="], shown: ["+", "-"], repeats: true, words: "Zoom in or out", run: () => { zoom.step(focusedPane(), 1); show(); } },
    { keys: ["-"], repeats: true, run: () => { zoom.step(focusedPane(), -1); show(); } },
    { keys: Object.keys(panning).map((key) => `Shift+${key}`), shown: ["Shift+ArrowRight"], repeats: true, words: "Pan while zoomed", run: ({ key }) => pan(...panning[key]) },
    { keys: ["Digit1", "Digit2", "Digit3", "Digit4"], shown: ["1", "4"], words: "Compare one to four pictures side by side", run: ({ code }) => setPanes(Number(code.slice(-1))) },
    ...(more ? [{ keys: ["t"], words: "All tags of the picture", run: () => void more(at) }] : []),
    { keys: ["o", "Escape"], shown: ["Escape"], words: "Show the whole picture, then close", run: () => { if (zoom.isFit) return close(); zoom.fit(); show(); } },
    { keys: ["Enter", "Home", "End", "[", "]", "e", "m", "s", "c"], run: () => {} },
  ]);
  layer.focus({ preventScroll: true });
  show();
  load("open large");
  return { refresh: () => isOpen && (count() ? (at = Math.min(at, count() - 1), show()) : close()), close };
}
