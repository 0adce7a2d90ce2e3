// Settings: those of the library are stored in its file, the theme in this browser.

import { get, post } from "../api.js";
import { button, fill, h, readable } from "../dom.js";
import { showError, showMessage } from "../toast.js";
import { tagField } from "../autocomplete.js";
import { markRequested } from "../job_progress.js";
import { phoneCard } from "../phone_card.js";
import { writePlaces } from "../write_places.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const SOURCES = {
  xmp: ["XMP sidecars", "files such as photo.jpg.xmp beside a picture"],
  embedded: ["Inside pictures", "keywords in IPTC and XMP of the file itself"],
  listing: ["Lists", "metadata.csv and metadata.jsonl in a folder"],
  text: ["Text files", "a .txt file of tags beside a picture"],
  folders: ["Folder names", "each folder is a tag of the pictures in it"],
};
const THEMES = [["", "Like the system"], ["light", "Light"], ["dark", "Dark"]];
const PRECISIONS = [["", "Recommended (about 70%)"], ["0.8", "80%"], ["0.9", "90%: fewer preselected, fewer mistakes"], ["0.95", "95%"], ["0.98", "98%"]];

export async function open(main) {
  const room = h("div", {});
  const phone = h("section", { class: "card" });
  main.append(h("div", { class: "page settings" }, h("div", { class: "title" }, h("h1", {}, "Settings")), room, phone));
  phoneCard(phone).catch(() => phone.remove()); // a phone may not ask
  const input = h("input", { id: "never", placeholder: "Word", "aria-label": "Word that is never suggested", autocomplete: "off", maxlength: 500 });
  const neverForm = h("form", { class: "add", onsubmit: (event) => { event.preventDefault(); if (input.value.trim()) never(input.value.trim(), true); } }, tagField(input), h("button", { type: "submit" }, "Never suggest"));
  let stored = await get("/settings");
  let all = await tags.all();

  async function change(changes, { rescan = false } = {}) {
    try {
      stored = await post("/settings", changes);
      showMessage(rescan ? "Saved. It applies from the next scan on." : "Saved.", rescan ? { action: "Scan now", run: scan } : {});
    } catch (error) { showError(error); }
    draw();
  }
  async function scan() {
    try {
      markRequested((await post("/scan")).job);
    } catch (error) { showError(error); }
  }
  function setTheme(theme) {
    try {
      if (theme) localStorage.setItem("theme", theme);
      else localStorage.removeItem("theme");
    } catch { /* it lasts until the page is closed */ }
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }
  async function never(tag, hidden) {
    try {
      await post("/tags/hide", { tag, hidden, new: hidden });
      if (hidden) input.value = "";
      tags.invalidate();
      all = await tags.all();
      showMessage(hidden ? `“${readable(tag)}” is never suggested any more.` : `“${readable(tag)}” can be suggested again.`);
    } catch (error) { showError(error); }
    draw();
  }

  const choice = (name, label, options, value, chosen) => {
    const select = h("select", { id: name, onchange: () => chosen(select.value) }, ...options.map(([key, words]) => h("option", { value: key }, words)));
    select.value = value;
    return h("p", { class: "setting" }, h("label", { for: name }, label), select);
  };
  const checks = (names, isOn, words, toggled) => h("ul", { class: "checks" }, ...names.map((name) => {
    const box = h("input", { type: "checkbox", id: `check-${name}`, checked: isOn(name), onchange: () => toggled(name, box.checked) });
    const [title, more] = words(name);
    return h("li", {}, box, h("label", { for: box.id }, title, more ? h("span", { class: "muted" }, `, ${more}`) : null));
  }));
  const toggle = (list, name, on) => (on ? [...list, name] : list.filter((one) => one !== name));

  function draw() {
    const focused = document.activeElement?.id;
    const language = new Intl.DisplayNames(["en"], { type: "language" });
    const hidden = all.filter((tag) => tag.hidden);
    const anySource = stored.sources.length === 0;
    fill(room,
      h("section", { class: "card" }, h("h2", {}, "This browser"),
        choice("theme", "Theme", THEMES, document.documentElement.dataset.theme ?? "", setTheme)),
      h("section", { class: "card" }, h("h2", {}, "Suggestions"),
        choice("precision", "Precision of preselected pictures", PRECISIONS, PRECISIONS.find(([key]) => key && Number(key) === stored.precision)?.[0] ?? "", (value) => change({ precision: Number(value) })),
        h("p", { class: "muted" }, "In a review batch, pictures above a threshold are preselected, and Enter accepts them. The threshold is chosen so that this share of them is expected to be correct."),
        choice("language", "Language of words without tags", [["", "Like the browser"], ...stored.all_languages.map((code) => [code, language.of(code)])], stored.language ?? "", (value) => change({ language: value })),
        h("h3", {}, "Never suggested"),
        hidden.length ? h("ul", { class: "chips" }, ...hidden.map((tag) => h("li", { class: "chip" }, h("bdi", {}, readable(tag.name)),
          h("button", { type: "button", "aria-label": `Suggest ${tag.name} again`, onclick: () => never(tag.name, false) }, "✕")))) : h("p", { class: "muted" }, "Every tag can be suggested."),
        neverForm),
      h("section", { class: "card" }, h("h2", {}, "Pictures"),
        h("p", { class: "muted" }, "Kinds of files that scans look for. Tags and decisions of other pictures are kept."),
        checks(stored.all_file_types, (name) => stored.file_types.includes(name), (name) => [name.charAt(0).toUpperCase() + name.slice(1)], (name, on) => change({ file_types: toggle(stored.file_types, name, on) }, { rescan: true }))),
      h("section", { class: "card" }, h("h2", {}, "Where tags are read"),
        checks(["auto"], () => anySource, () => ["Wherever they are found"], (_, on) => change({ sources: on ? [] : ["xmp", "embedded"] }, { rescan: true })),
        anySource ? null : checks(stored.all_sources, (name) => stored.sources.includes(name), (name) => SOURCES[name] ?? [name], (name, on) => change({ sources: toggle(stored.sources, name, on) }, { rescan: true })),
        h("p", { class: "row" }, button("Scan now", "", scan))),
      h("section", { class: "card" }, h("h2", {}, "Where tags are written"),
        h("p", {}, "Accepted tags are written when you ask for it, under ", h("a", { href: "/training" }, "Training"), ", after a preview. A whole write can be undone there."),
        ...writePlaces(stored.write_places, (places) => change({ write_places: places }))));
    if (focused) document.getElementById(focused)?.focus();
  }
  keys.use("Settings", []);
  draw();
  main.focus({ preventScroll: true });
}
