// Short messages at the edge of the page; errors stay longer, and are read out at once.

import { find, h } from "./dom.js";

export function say(words, { action, run, wrong = false } = {}) {
  const toast = h("div", { class: wrong ? "toast wrong" : "toast", role: wrong ? "alert" : undefined }, h("span", {}, words));
  const gone = () => toast.remove();
  if (action) toast.append(h("button", { type: "button", onclick: () => (gone(), run()) }, action));
  if (wrong) toast.append(h("button", { type: "button", onclick: gone }, "Close"));
  const room = find("#toasts");
  room.append(toast);
  while (room.children.length > 3) room.firstChild.remove();
  setTimeout(gone, wrong ? 12000 : 4500);
}

export const complain = (error) => say(error.message, { wrong: true });
