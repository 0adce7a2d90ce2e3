// Toasts: short messages; errors stay longer and interrupt screen readers.

import { find, h } from "./dom.js";

export function showMessage(words, { action, run, wrong = false } = {}) {
  const toast = h("div", { class: wrong ? "toast wrong" : "toast", role: wrong ? "alert" : undefined }, h("span", {}, words));
  const gone = () => toast.remove();
  if (action) toast.append(h("button", { type: "button", onclick: () => (gone(), run()) }, action));
  if (wrong) toast.append(h("button", { type: "button", onclick: gone }, "Close"));
  const room = find("#toasts");
  room.append(toast);
  while (room.children.length > 3) room.firstChild.remove();
  setTimeout(gone, wrong ? 12000 : 4500);
}

export const showError = (error) => showMessage(error.message, { wrong: true });
