// Modal dialogs. Each resolves to the text or true, or to null if it was closed.

import { h } from "./dom.js";
import { tagField } from "./autocomplete.js";

function opened(title, content, submit) {
  return new Promise((resolve) => {
    let answer = null;
    const form = h("form", { method: "dialog", onsubmit: () => (answer = submit()) }, h("h2", { id: "dialog-title" }, title), ...content);
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    form.querySelector("[autofocus]")?.focus();
    form.querySelector("input")?.select();
    form.addEventListener("click", (event) => event.target.matches("[data-close]") && dialog.close());
  });
}

const buttons = (words) => h("p", { class: "buttons" },
  h("button", { type: "button", "data-close": true }, "Cancel"),
  h("button", { type: "submit", class: "main" }, words));

/** Ask for the name of a tag. */
export function askTag(title, { value = "", words = "", button = "OK" } = {}) {
  const input = h("input", { value, autofocus: true, required: true, maxlength: 500, autocomplete: "off", "aria-label": title });
  const field = tagField(input);
  return opened(title, [words && h("p", { class: "muted" }, words), field, buttons(button)], () => input.value.trim() || null);
}

/** Ask for a text. */
export function askText(title, { value = "", button = "OK" } = {}) {
  const input = h("input", { value, autofocus: true, required: true, maxlength: 100, autocomplete: "off", "aria-label": title });
  return opened(title, [input, buttons(button)], () => input.value.trim() || null);
}

/** Ask for confirmation. */
export function confirm(title, words, button) {
  return opened(title, [h("p", {}, words), buttons(button)], () => true);
}
