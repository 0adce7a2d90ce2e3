// All tags of the library, asked for again when something was decided.

import { get } from "./api.js";

let found = null;

export function outdated() {
  found = null;
}

/** All tags, as the service tells them. */
export function all() {
  found ??= get("/tags").then(({ tags }) => tags);
  found.catch(outdated);
  return found;
}

export async function one(name) {
  return (await all()).find((tag) => tag.name === name);
}
