// Where tags are written, by kind of file: a setting of the library.

import { h } from "./dom.js";

const JPEG = [["sidecar", "To sidecars (photo.jpg.xmp)"], ["file", "Into the files"], ["nowhere", "Nowhere"]];
const OTHERS = [["sidecar", "To sidecars"], ["nowhere", "Nowhere"]];

/** Return the controls; `change(places)` stores some of the places. */
export function writePlaces(places, change) {
  const choice = (name, label, options) => {
    const select = h("select", { id: `write-${name}`, onchange: () => change({ [name]: select.value }) }, ...options.map(([value, words]) => h("option", { value }, words)));
    select.value = places[name];
    return h("p", { class: "setting" }, h("label", { for: select.id }, label), select);
  };
  const iptc = h("input", { type: "checkbox", id: "write-iptc", checked: places.iptc, onchange: () => change({ iptc: iptc.checked }) });
  return [
    choice("jpeg", "JPEG files", JPEG),
    h("p", { class: "muted" }, "Lightroom and Bridge read the tags of JPEG files only inside the file. digiKam, darktable and other programs also read sidecars. The pixels of a file never change."),
    places.jpeg === "file" ? h("ul", { class: "checks" }, h("li", {}, iptc, h("label", { for: "write-iptc" }, "IPTC keywords, too, for old programs", h("span", { class: "muted" }, ", where a file has none; existing ones are always kept in step")))) : null,
    choice("raw", "Raw files", OTHERS),
    choice("other", "Other pictures", OTHERS),
  ].filter(Boolean);
}

/** Return the words for where the tags of JPEG files go. */
export const placeWords = ({ jpeg }) => ({
  sidecar: "ProtoTag writes tags to .xmp files beside your pictures and never changes the pictures.",
  file: "ProtoTag writes tags into JPEG files, whose pixels stay as they are, and to .xmp files beside other pictures.",
  nowhere: "ProtoTag writes no tags of JPEG files, and those of other pictures to .xmp files beside them.",
})[jpeg];
