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

async function scan() {
  try {
    markRequested((await post("/scan")).job);
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
    return notice("Scanning your pictures", `${count(status.pictures, "picture")} so far. You can look at them and tag them meanwhile.`, h("a", { href: "/library" }, "Open the library"));
  }
  if (isRunning("learn")) return notice("Training on your tags", "This takes seconds for hundreds of pictures, minutes for thousands. Suggestions appear here when it is done.");
  if (!status.pictures) return notice("No pictures were found", `ProtoTag looked in ${status.roots.join(", ")} and the folders below. Add pictures there, then scan again.`, button("Scan again", "", scan, { class: "main" }));
  const ready = status.tagged >= MIN_TAGGED;
  const counts = `${count(status.pictures, "picture")}, ${status.tagged.toLocaleString("en")} of them tagged.`;
  if (ready) return notice("Train on your tags", `${counts} Train once, then ProtoTag suggests tags for the other pictures. This takes seconds for hundreds of pictures, minutes for thousands.`, button("Train now", "l", () => learn(), { class: "main" }));
  return notice("Start with a tag", `${counts} Press n and type the name of a tag, such as beach: ProtoTag shows the pictures that fit best, and learns from each answer.`, h("a", { href: "/library" }, "Open the library"));
}

const notice = (title, words, action) =>
  h("section", { class: "notice welcome" }, h("div", {}, h("h2", {}, title), h("p", {}, words)), action);
