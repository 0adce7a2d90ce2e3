// Explanations: the pictures of the library that contribute most to the score of a tag.

import { get } from "./api.js";
import { closeBy, h, percent, readable, thumbnail } from "./dom.js";

/** Create a row of thumbnails of the contributing pictures. */
export async function reasons(picture, tag) {
  const { reasons: found } = await get(`/pictures/${picture}/explain`, { tag });
  if (!found.length) return h("p", { class: "muted" }, "No picture of the library contributes to this tag.");
  const most = Math.max(...found.map((one) => one.share));
  return h("ul", { class: "strip" }, ...found.map((one) => h("li", {},
    h("a", { href: `/picture/${one.picture}`, "aria-label": `Picture ${one.picture}, ${percent(one.share / most)} of the largest contribution` },
      h("img", { src: thumbnail(one.picture), alt: "" }),
      h("meter", { max: "1", value: String(one.share / most), "aria-hidden": "true" })))));
}

/** Show an explanation in a dialog, beside the explained picture. */
export async function showWhy(picture, tag, probability) {
  const room = h("div", {}, h("p", { class: "muted" }, "Loading…"));
  const dialog = h("dialog", { class: "why", "aria-labelledby": "why-title" },
    h("h2", { id: "why-title" }, `Why “${readable(tag)}”?`),
    h("div", { class: "asked" }, h("img", { src: thumbnail(picture), alt: "The explained picture" }),
      h("p", {}, `Probability ${percent(probability)}. These pictures of yours contribute most to it.`)),
    room,
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
  closeBy(dialog, "e");
  document.body.append(dialog);
  dialog.showModal();
  room.replaceChildren(await reasons(picture, tag).catch((error) => h("p", {}, error.message)));
}
