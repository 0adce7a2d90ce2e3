// Notices before the first training, and the start of a training.

import { get, post } from "./api.js";
import { button, count, h } from "./dom.js";
import { showError } from "./toast.js";
import { isRunning, markRequested } from "./job_progress.js";

const MIN_TAGGED = 10; // tagged pictures that the first training needs

export async function learn(full) {
  try {
    markRequested((await post("/learn", full ? { full: true } : {})).job);
  } catch (error) {
    showError(error);
  }
}

/** Fill the area above a screen with notices. */
export async function welcome(room) {
  const status = await get("/library");
  room.replaceChildren(...(status.model ? [] : [first(status)]), ...status.problems.map((one) => h("p", { class: "notice" }, one)));
}

function first(status) {
  if (isRunning("scan")) {
    return notice("Scanning your pictures", `${count(status.pictures, "picture")} found so far. The library shows them while the scan continues.`);
  }
  if (isRunning("learn")) return notice("Training on your tags", "This takes seconds for hundreds of pictures, minutes for thousands.");
  const ready = status.tagged >= MIN_TAGGED;
  const counts = `${count(status.pictures, "picture")}, ${status.tagged.toLocaleString("en")} of them tagged.`;
  const next = ready ? "Training takes seconds for hundreds of pictures, minutes for thousands." : "Tag one or more pictures in the library, then open the tag: ProtoTag ranks the others by similarity, and each decision counts at once.";
  return notice("There is no model yet", `${counts} ${next}`,
    ready ? button("Train now", "l", () => learn(), { class: "main" }) : h("a", { href: "/library" }, "Open the library"));
}

const notice = (title, words, action) =>
  h("section", { class: "notice welcome" }, h("div", {}, h("h2", {}, title), h("p", {}, words)), action);
