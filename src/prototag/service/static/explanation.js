// Why a picture gets a tag: the pictures of the library that speak for it.

import { get } from "./api.js";
import { closeBy, h, readable, thumbnail } from "./dom.js";

/** The pictures behind a tag, in words and as a row of thumbnails. */
export async function reasons(picture, tag) {
  const { reasons: found } = await get(`/pictures/${picture}/explain`, { tag });
  if (!found.length) return h("p", { class: "muted" }, "No picture of the library speaks for it.");
  const most = Math.max(...found.map((one) => one.share));
  return h("ul", { class: "strip" }, ...found.map((one) => h("li", {},
    h("a", { href: `/picture/${one.picture}`, "aria-label": `Picture ${one.picture}, ${Math.round((100 * one.share) / most)} % of the strongest` },
      h("img", { src: thumbnail(one.picture), alt: "" }),
      h("meter", { max: "1", value: String(one.share / most), "aria-hidden": "true" })))));
}

/** The same in a window, beside the picture that is asked about. */
export async function showWhy(picture, tag, probability) {
  const room = h("div", {}, h("p", { class: "muted" }, "Looking…"));
  const dialog = h("dialog", { class: "why", "aria-labelledby": "why-title" },
    h("h2", { id: "why-title" }, `Why “${readable(tag)}”?`),
    h("div", { class: "asked" }, h("img", { src: thumbnail(picture), alt: "The picture that is asked about" }),
      h("p", {}, `${Math.round(100 * probability)} % likely. These pictures of yours speak for it, the strongest first.`)),
    room,
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
  closeBy(dialog, "e");
  document.body.append(dialog);
  dialog.showModal();
  room.replaceChildren(await reasons(picture, tag).catch((error) => h("p", {}, error.message)));
}
