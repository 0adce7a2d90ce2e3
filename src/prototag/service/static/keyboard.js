// Keys of the screen that is open, and the overlay that lists them. A binding is
// {keys: ["a", " "], words: "Yes", run, shown: "a or space"}; `run` may return false to let a key be.
// A key that is held down runs its binding once, unless the binding `repeats`: moving does, deciding never.

import { closeBy, find, h } from "./dom.js";

let screen = { title: "", bindings: [] };
let always = [];
let first = () => [];
const NAMES = { " ": "space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", Backspace: "⌫" };

export const useAlways = (bindings) => void (always = bindings);
export const useFirst = (bindings) => void (first = bindings);
export const use = (title, bindings) => void (screen = { title, bindings });

function pressed(event) {
  const shift = event.shiftKey && (event.key.length > 1 || event.key === " ");
  return (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (shift ? "Shift+" : "") + event.key;
}

/** Whether keys belong to what has the focus: a field, a list to choose from, an open dialog. */
function isTaken(event) {
  if (event.defaultPrevented || event.altKey || find("dialog[open]")) return true;
  const on = event.target;
  if (on.matches("input, textarea, select")) return !on.matches("[type=radio], [type=checkbox]") || event.key.startsWith("Arrow");
  return on.matches("button, a, summary") && (event.key === "Enter" || event.key === " ");
}

let held = null; // keys that were pressed while a screen opens: they are meant for it

export const hold = () => void (held ??= []);
export function release() {
  const waiting = held ?? [];
  held = null;
  for (const event of waiting) {
    const on = document.activeElement;
    if (on?.matches("input") && event.key.length === 1) {
      on.setRangeText(event.key, on.selectionStart, on.selectionEnd, "end");
      on.dispatchEvent(new Event("input"));
    } else if (!find("dialog[open]")) run(event);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.repeat && (event.key === "Enter" || event.key === " ") && event.target.matches("button, a, summary")) {
    return event.preventDefault(); // a held key presses a button once
  }
  if (isTaken(event)) return;
  if (held === null) return run(event);
  held.push(event);
  if (!event.ctrlKey && !event.metaKey) event.preventDefault();
});

function run(event) {
  const name = pressed(event);
  for (const binding of [...first(event), ...screen.bindings, ...always]) {
    if (!binding.keys.includes(name) && !(event.code.startsWith("Digit") && binding.keys.includes(event.code))) continue;
    if (event.repeat && !binding.repeats) return event.preventDefault();
    performance.mark("key");
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

/** The overlay that lists all keys. */
export function showHelp() {
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("div", { class: "columns" }, h("section", {}, ...section(screen.title, screen.bindings)), h("section", {}, ...section("Everywhere", always))),
    close);
  dialog.addEventListener("close", () => dialog.remove());
  closeBy(dialog, "?");
  document.body.append(dialog);
  dialog.showModal();
}
