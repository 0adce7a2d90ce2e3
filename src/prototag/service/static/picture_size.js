// Slider for the size of the pictures in a grid. Each kind of grid keeps its size in this browser.

import { h } from "./dom.js";

const [SMALLEST, LARGEST] = [80, 480]; // pixels of the width of a cell
const FACTOR = 1.2; // of one key press

/**
 * Create a slider. `apply(width)` sets the width of the cells, null for the default; `width()`
 * returns the width that they have now.
 */
export function sizeSlider(name, apply, width) {
  const key = `picture size ${name}`;
  const slider = h("input", { type: "range", class: "size", min: SMALLEST, max: LARGEST, step: 4, "aria-label": "Size of the pictures", title: "Size of the pictures" });
  const stored = Number(read(key)) || null;

  function set(value) {
    const wanted = Math.min(Math.max(Math.round(value), SMALLEST), LARGEST);
    slider.value = wanted;
    keep(key, String(wanted));
    apply(wanted);
  }
  slider.addEventListener("input", () => set(Number(slider.value)));
  const start = () => {
    apply(stored);
    slider.value = stored ?? width();
  };
  const bindings = [
    { keys: ["+", "="], shown: ["+", "-"], repeats: true, words: "Larger or smaller pictures", run: () => set(Number(slider.value) * FACTOR) },
    { keys: ["-"], repeats: true, run: () => set(Number(slider.value) / FACTOR) },
  ];
  return { slider, bindings, start };
}

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch { return null; }
}

function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* the size lasts as long as the page */ }
}
