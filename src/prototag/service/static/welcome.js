// What to say before anything is learned, and learning when somebody asks for it.

import { get, post } from "./api.js";
import { button, count, h } from "./dom.js";
import { complain } from "./toast.js";
import { isRunning, wanted } from "./job_progress.js";

const LEAST = 10; // tagged pictures that something can be learned from

export async function learn(full) {
  try {
    wanted((await post("/learn", full ? { full: true } : {})).job);
  } catch (error) {
    complain(error);
  }
}

/** Fill the room above a screen, if there is something to say. */
export async function welcome(room) {
  const status = await get("/library");
  room.replaceChildren(...(status.model ? [] : [first(status)]), ...status.problems.map((one) => h("p", { class: "notice" }, one)));
}

function first(status) {
  if (isRunning("scan")) {
    return notice("Reading your pictures", `${count(status.pictures, "picture")} found until now. The library shows them while the others are read.`);
  }
  if (isRunning("learn")) return notice("Learning from your tags", "This takes seconds for hundreds of pictures, minutes for thousands.");
  const ready = status.tagged >= LEAST;
  const own = `${count(status.pictures, "picture")}, ${status.tagged.toLocaleString("en")} of them with tags of your own.`;
  const next = ready ? "Learning takes seconds for hundreds of pictures, minutes for thousands." : "Give a tag to one or more pictures in the library, then open the tag: the others are ranked by similarity, and every yes and no counts at once.";
  return notice("Nothing is learned yet", `${own} ${next}`,
    ready ? button("Learn now", "l", () => learn(), { class: "main" }) : h("a", { href: "/library" }, "To the library"));
}

const notice = (title, words, action) =>
  h("section", { class: "notice welcome" }, h("div", {}, h("h2", {}, title), h("p", {}, words)), action);
