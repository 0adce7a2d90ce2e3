// Creating and finding elements. Text is set as text nodes, so that no name becomes markup.

/** Create an element: `h("p", {class: "muted", onclick: f}, "words", other)`. */
export function h(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(made.dataset, value);
    else if (key === "value") made.value = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...withoutEmpty(children));
  return made;
}

const withoutEmpty = (children) => children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);

/** Replace the children of an element; empty values are skipped. */
export const fill = (element, ...children) => element.replaceChildren(...withoutEmpty(children));

export const find = (selector, within = document) => within.querySelector(selector);

/** Create a button that shows its key. */
export function button(words, key, run, more = {}) {
  const shown = key ? [h("span", {}, words), " ", h("kbd", { "aria-hidden": "true" }, key)] : [words];
  return h("button", { type: "button", onclick: run, ...more }, ...shown);
}

/** Close a dialog by the key that opened it. */
export function closeBy(dialog, key) {
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== key) return;
    event.preventDefault();
    dialog.close();
  });
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(100 * share)}%`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Return the display name of a tag: animal › cat for animal|cat. */
export const readable = (tag) => tag.replaceAll("|", " › ");
export const leaf = (tag) => tag.slice(tag.lastIndexOf("|") + 1);

export function ago(seconds) {
  const past = Date.now() / 1000 - seconds;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86400) return `${Math.floor(past / 3600)} h ago`;
  return new Date(1000 * seconds).toLocaleDateString();
}

const key = document.body.dataset.library ?? "";
export const thumbnail = (number) => `/api/v1/pictures/${number}/thumbnail?library=${key}`;
export const largeThumbnail = (number, side) => `${thumbnail(number)}&side=${side}`;
export const fullSize = (number) => `/api/v1/pictures/${number}/full-size?library=${key}`;
export const preview = (number, side) => `/api/v1/pictures/${number}/preview?side=${side}&library=${key}`;

/** Prefetch pictures into the browser's cache. */
export function fetchAhead(addresses) {
  for (const address of addresses) {
    const image = new Image();
    image.fetchPriority = "low";
    image.src = address;
  }
}
