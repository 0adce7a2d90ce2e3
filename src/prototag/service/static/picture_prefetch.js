// Prefetching of picture data and large pictures, so that the next one opens without waiting.

import { get } from "./api.js";
import { preview } from "./dom.js";

const MAX_VIEWS = 60;
const MAX_LARGE = 12;
const views = new Map();

/** Fetch the data of a picture, cached until it is invalidated. */
export function view(number) {
  if (!views.has(number)) {
    const asked = get(`/pictures/${number}`);
    asked.then((found) => (asked.now = found), () => views.delete(number));
    views.set(number, asked);
    if (views.size > MAX_VIEWS) views.delete(views.keys().next().value);
  }
  return views.get(number);
}

export const invalidate = (number) => views.delete(number);

/** Return the pixels of the large picture for this screen, in steps that limit the number of sizes. */
export function side() {
  const wanted = Math.max(innerWidth, innerHeight) * Math.min(devicePixelRatio, 2);
  return wanted <= 900 ? 800 : wanted <= 1700 ? 1600 : 2400;
}

const images = new Map(); // large pictures that are loaded or loading
let wanted = [];
let loading = null; // the loading one: one at a time, so that other requests do not wait

/** Return the large picture if it is loaded. */
export function large(number) {
  const image = images.get(number);
  if (!image?.isReady) return null;
  images.delete(number); // moves it to the most recently used ones
  images.set(number, image);
  return image;
}

/** Fetch large pictures in this order; cancel others. */
export function fetchLarge(numbers, arrived) {
  wanted = numbers;
  if (loading !== null && !numbers.includes(loading)) {
    images.get(loading).src = "";
    images.delete(loading);
    loading = null;
  }
  nextLarge(arrived);
}

async function nextLarge(arrived) {
  const number = loading === null ? wanted.find((one) => !images.has(one)) : undefined;
  if (number === undefined) return;
  const image = new Image();
  loading = number;
  images.set(number, image);
  image.src = preview(number, side());
  image.isReady = await image.decode().then(() => true, () => false);
  if (images.get(number) !== image) return; // cancelled
  loading = null;
  if (images.size > MAX_LARGE) images.delete(images.keys().next().value);
  arrived(number);
  nextLarge(arrived);
}
