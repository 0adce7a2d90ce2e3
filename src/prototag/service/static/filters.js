// Filters of the library: read from the address, sent to the service, and shown as removable chips.

import { readable } from "./dom.js";

const SINGLE = ["text", "state", "folder", "camera", "lens", "date", "area", "like", "order"];
export const STATES = {
  untagged: "Untagged", tagged: "Tagged", suggested: "With suggestions",
  decided: "With decisions", complete: "Complete", missing: "File missing",
};
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

export function filtersOf(params) {
  return { tag: params.getAll("tag"), ...Object.fromEntries(SINGLE.map((name) => [name, params.get(name)])) };
}

/** Return the parameters of requests; facets take no order. */
export function requestOf({ text, like, order, ...others }, isSearch = true) {
  return { ...others, query: text, ...(isSearch ? { like, order } : {}) };
}

export const isFiltered = ({ order: _, ...chosen }) => Object.values(chosen).some((one) => one?.length);

/** Return the words of a filter by date: May 2023 for 2023-05. */
export function dateWords(date) {
  return date.split("..").map((one) => {
    const [year, month, day] = one.split("-");
    return [day && Number(day), month && MONTHS[Number(month) - 1], year].filter(Boolean).join(" ");
  }).join(" to ");
}

/** Return pairs of words and the changes that remove the filter. */
export function removable(chosen) {
  const one = (name, words) => (chosen[name] ? [[words(chosen[name]), { [name]: null }]] : []);
  return [
    ...chosen.tag.map((tag) => [readable(tag), { tag: chosen.tag.filter((other) => other !== tag) }]),
    ...one("state", (state) => STATES[state] ?? state),
    ...one("date", dateWords),
    ...one("camera", (camera) => camera),
    ...one("lens", (lens) => lens),
    ...one("area", () => "On the map"),
    ...one("folder", (folder) => folder.split(/[/\\]/).pop()),
    ...(chosen.like ? [["Like one picture", { like: null, ...(chosen.order === "likeness" ? { order: null } : {}) }]] : []),
  ];
}

/** Return what EXIF says of a picture, as parts of a line. */
export function captureWords({ taken_at: time, camera, lens, latitude, longitude }) {
  const [day, clock] = (time ?? "").split("T");
  const place = latitude === null ? null : `${Math.abs(latitude).toFixed(3)}° ${latitude < 0 ? "S" : "N"}, ${Math.abs(longitude).toFixed(3)}° ${longitude < 0 ? "W" : "E"}`;
  return [time && `${dateWords(day)}, ${clock.slice(0, 5)}`, camera, lens, place].filter(Boolean);
}
