// Cache of all tags of the library, invalidated by decisions.

import { get } from "./api.js";

let found = null;

export function invalidate() {
  found = null;
}

/** Fetch all tags. */
export function all() {
  found ??= get("/tags").then(({ tags }) => tags);
  found.catch(invalidate);
  return found;
}

export async function one(name) {
  return (await all()).find((tag) => tag.name === name);
}
