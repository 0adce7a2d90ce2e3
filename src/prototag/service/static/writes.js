// The last writes of tags to files, each of which can be undone as a whole.

import { get, post } from "./api.js";
import { ago, button, count, fill, h } from "./dom.js";
import { confirm } from "./dialog.js";
import { isRunning, markRequested } from "./job_progress.js";
import { showError } from "./toast.js";

const MAX_SHOWN = 8;

/** Fill a section with the last writes. */
export async function fillWrites(room) {
  const { writes } = await get("/writes");
  room.hidden = !writes.length;
  fill(room, h("h3", {}, "Last writes"), h("ul", { class: "writes" }, ...writes.slice(0, MAX_SHOWN).map((one) => {
    const tags = [one.added && `${count(one.added, "tag")} added`, one.removed && `${one.removed.toLocaleString("en")} removed`].filter(Boolean).join(", ") || "no tags";
    const words = `${count(one.files, "file")}, ${tags}, ${ago(one.written_at)}`;
    return h("li", { class: one.undone ? "undone" : undefined }, h("span", { class: "what" }, words), " ",
      one.undone ? h("em", {}, "undone") : button("Undo", "", () => undoWrite(one, words), { "aria-label": `Undo the write of ${words}`, disabled: isRunning("undo_write") || isRunning("sync") }));
  })));
}

async function undoWrite({ number, files }, words) {
  if (!(await confirm("Undo this write?", `ProtoTag restores ${count(files, "file")} exactly as ${files === 1 ? "it was" : "they were"} before (${words}). Files that changed since stay as they are. Your decisions stay.`, "Undo"))) return;
  try {
    markRequested((await post("/writes/undo", { number })).job);
  } catch (error) { showError(error); }
}
