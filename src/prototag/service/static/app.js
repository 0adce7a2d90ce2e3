// The application shell: routing between screens, job progress, and the keys of all screens.

import { find, h } from "./dom.js";
import { redo, undo } from "./decisions.js";
import { jobsKnown, listenToJobs } from "./job_progress.js";
import * as keys from "./keyboard.js";
import { showError } from "./toast.js";

const SCREENS = [
  [/^\/$/, "tags", () => import("./screens/tags.js")],
  [/^\/review$/, "tags", () => import("./screens/review.js")],
  [/^\/picture\/(\d+)$/, "library", () => import("./screens/picture.js")],
  [/^\/library$/, "library", () => import("./screens/library.js")],
  [/^\/training$/, "training", () => import("./screens/training.js")],
  [/^\/settings$/, "settings", () => import("./screens/settings.js")],
];
let close = () => {};
let opening = 0;

/** Go to a screen by its address. */
export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"]({}, "", address);
  return open();
}

async function open() {
  const mine = (opening += 1);
  keys.hold();
  const { pathname, searchParams } = new URL(location.href);
  const [pattern, name, load] = SCREENS.find(([one]) => one.test(pathname)) ?? SCREENS[0];
  const [screen] = await Promise.all([load(), jobsKnown]);
  if (mine !== opening) return;
  close();
  close = () => {};
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.screen === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = h("main", { id: "main", tabindex: "-1" });
  find("main").replaceWith(main);
  keys.use("This screen", []);
  try {
    const closing = await screen.open(main, { params: searchParams, number: Number(pattern.exec(pathname)?.[1]) });
    if (mine === opening) close = closing ?? close;
    else closing?.();
  } catch (error) {
    showError(error);
    main.append(h("p", { class: "notice" }, error.message, " ", h("a", { href: location.href }, "Try again")));
  } finally {
    if (mine === opening) keys.release();
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || !SCREENS.some(([one]) => one.test(to.pathname)) || link.hash) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
window.addEventListener("popstate", open);
find("#help").addEventListener("click", keys.showHelp);

let prefixPressedAt = 0; // time of the key "g", the prefix of the navigation keys
const after = (key, words, address) => ({ keys: [key], shown: ["g", key], words, run: () => (Date.now() - prefixPressedAt < 1500 ? void go(address) : false) });
const everywhere = [
  { keys: ["?"], words: "Show these keys", run: keys.showHelp },
  { keys: ["z", "Ctrl+z"], shown: ["z"], words: "Undo the last decision of this tab", run: () => void undo() },
  { keys: ["Z", "Ctrl+Z", "Ctrl+y"], shown: ["Z"], words: "Redo the last undone decision", run: () => void redo() },
  { keys: ["g"], run: () => void (prefixPressedAt = Date.now()) },
  after("t", "Go to the tags", "/"),
  after("l", "Go to the library", "/library"),
  after("h", "Go to training and history", "/training"),
  after("s", "Go to the settings", "/settings"),
];
keys.useAlways(everywhere);
keys.useFirst((event) => Date.now() - prefixPressedAt < 1500 && event.key !== "g" ? everywhere.slice(3) : []);

document.title = `${document.body.dataset.title} – prototag`;
listenToJobs();
open();
