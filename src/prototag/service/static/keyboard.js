// Key bindings of the current screen, and the dialog that lists them. A binding is
// {keys: ["a", " "], words: "Yes", run, shown: "a or space"}; `run` may return false to ignore a key.
// A key that is held down runs its binding once, unless the binding `repeats`: moving does, decisions never do.

import { closeBy, find, h } from "./dom.js";
import { markInput } from "./perf.js";

let screen = { title: "", bindings: [] };
let always = [];
let first = () => [];
const NAMES = { " ": "space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", Backspace: "⌫" };

export const useAlways = (bindings) => void (always = bindings);
export const useFirst = (bindings) => void (first = bindings);
export const use = (title, bindings) => {
  screen = { title, bindings };
  overlay = null;
};

let overlay = null; // bindings of a layer that covers the screen, such as the viewer

/** Let a layer take all keys of the screen; return a function that ends this. */
export function cover(title, bindings) {
  const layer = { title, bindings };
  overlay = layer;
  return () => void (overlay === layer && (overlay = null));
}
const current = () => overlay ?? screen;

function pressed(event) {
  const shift = event.shiftKey && (event.key.length > 1 || event.key === " ");
  return (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (shift ? "Shift+" : "") + event.key;
}

/** Return whether the focused element uses the key: a field, a list, or an open dialog. */
function isTaken(event) {
  if (event.defaultPrevented || event.altKey || find("dialog[open]")) return true;
  const on = event.target;
  if (on.matches("input, textarea, select")) return !on.matches("[type=radio], [type=checkbox]") || event.key.startsWith("Arrow");
  return on.matches("button, a, summary") && (event.key === "Enter" || event.key === " ");
}

let heldEvents = null; // keys that were pressed while a screen opens; they are replayed on it

export const hold = () => void (heldEvents ??= []);
export function release() {
  const waiting = heldEvents ?? [];
  heldEvents = null;
  for (const event of waiting) {
    const on = document.activeElement;
    if (on?.matches("input") && event.key.length === 1) {
      on.setRangeText(event.key, on.selectionStart, on.selectionEnd, "end");
      on.dispatchEvent(new Event("input"));
    } else if (!find("dialog[open]")) run(event);
  }
}

document.addEventListener("keydown", (event) => {
  markInput(event);
  if (event.repeat && (event.key === "Enter" || event.key === " ") && event.target.matches("button, a, summary")) {
    return event.preventDefault(); // a key that is held down presses a button once
  }
  if (isTaken(event)) return;
  if (heldEvents === null) return run(event);
  heldEvents.push(event);
  if (!event.ctrlKey && !event.metaKey) event.preventDefault();
});

function run(event) {
  const name = pressed(event);
  for (const binding of [...first(event), ...current().bindings, ...always]) {
    if (!binding.keys.includes(name) && !(event.code.startsWith("Digit") && binding.keys.includes(event.code))) continue;
    if (event.repeat && !binding.repeats) return event.preventDefault();
    if (binding.run(event) === false) continue;
    event.preventDefault();
    return;
  }
}

function named(key) {
  return key.split("+").map((part) => NAMES[part] ?? (part || "+")).join(" + ");
}

function section(title, bindings) {
  const rows = bindings.filter((one) => one.words).map((one) => [
    h("dt", {}, ...(one.shown ?? one.keys).flatMap((key, i) => (i ? [" ", h("kbd", {}, named(key))] : [h("kbd", {}, named(key))]))),
    h("dd", {}, one.words),
  ]);
  return [h("h3", {}, title), h("dl", {}, ...rows.flat())];
}

/** Show a dialog with all keys. */
export function showHelp() {
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("div", { class: "columns" }, h("section", {}, ...section(current().title, current().bindings)), h("section", {}, ...section("Everywhere", always))),
    close);
  dialog.addEventListener("close", () => dialog.remove());
  closeBy(dialog, "?");
  document.body.append(dialog);
  dialog.showModal();
}
