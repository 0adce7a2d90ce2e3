// The card of the settings that connects phones by a QR code.

import { get, post } from "./api.js";
import { button, count, fill, h } from "./dom.js";
import { showError } from "./toast.js";

const POLL_MS = 3000; // while the card is shown: a phone may connect

/** Fill the card; it updates itself until it leaves the page. */
export async function phoneCard(room) {
  let state = await get("/phone");
  const act = (path) => async () => {
    try {
      state = await post(path);
      draw();
    } catch (error) { showError(error); }
  };
  function draw() {
    const { enabled, link, expires_in: left, phones } = state;
    if (!enabled) return fill(room, h("h2", {}, "Phone"), h("p", {}, "A phone in the same network can review pictures, too: start ", h("code", {}, "prototag open FOLDER --phone"), "."));
    fill(room, h("h2", {}, "Phone"),
      link ? h("p", {}, "Scan this code with the camera of a phone in the same network. It works once, for ", h("strong", {}, count(Math.ceil(left / 60), "more minute")), ".") : h("p", {}, phones ? `${count(phones, "phone is", "phones are")} connected.` : "The code was used or has expired."),
      link ? h("img", { class: "qr", src: "/api/v1/phone/qr", alt: "QR code of the link" }) : null,
      link ? h("p", {}, h("code", { class: "link" }, link)) : null,
      h("p", { class: "muted" }, "The connection is not encrypted: use it only in a network that you trust."),
      h("p", { class: "row" }, button(link ? "New code" : "Connect another phone", "", act("/phone/code")), phones ? button(`Disconnect ${count(phones, "phone")}`, "", act("/phone/disconnect")) : null));
  }
  draw();
  const timer = setInterval(async () => {
    if (!room.isConnected) return clearInterval(timer);
    const now = await get("/phone").catch(() => state);
    if (now.link !== state.link || now.phones !== state.phones || Math.ceil(now.expires_in / 60) !== Math.ceil(state.expires_in / 60)) {
      state = now;
      draw();
    }
  }, POLL_MS);
}
