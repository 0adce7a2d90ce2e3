// Saving a list of pictures with their tags, as JSON lines that `prototag train` and others read.

import { post } from "./api.js";
import { h } from "./dom.js";
import { showError } from "./toast.js";

const MAX_PICTURES = 1000; // in one request, a limit of the service

/** Save paths and tags of pictures as a file. */
export async function savePictureList(pictures) {
  try {
    let text = "";
    for (let start = 0; start < pictures.length; start += MAX_PICTURES) {
      const { rows } = await post("/picture-list", { pictures: pictures.slice(start, start + MAX_PICTURES) });
      text += rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    }
    const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    h("a", { href: address, download: "pictures.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) { showError(error); }
}
