// What is known of pictures, asked for ahead, so that the next one is there when its key is pressed.

import { get } from "./api.js";
import { preview } from "./dom.js";

const KEPT = 60;
const KEPT_LARGE = 12;
const views = new Map();

/** One picture as the service tells it; the same promise until it is outdated. */
export function view(number) {
  if (!views.has(number)) {
    const asked = get(`/pictures/${number}`);
    asked.then((found) => (asked.now = found), () => views.delete(number));
    views.set(number, asked);
    if (views.size > KEPT) views.delete(views.keys().next().value);
  }
  return views.get(number);
}

export const outdated = (number) => views.delete(number);

/** Pixels that the large picture needs on this screen, in steps, so that few sizes are made. */
export function side() {
  const wanted = Math.max(innerWidth, innerHeight) * Math.min(devicePixelRatio, 2);
  return wanted <= 900 ? 800 : wanted <= 1700 ? 1600 : 2400;
}

const images = new Map(); // large pictures that are here, or on their way
let wanted = [];
let loading = null; // the one on its way: one at a time, so that nothing else waits for them

/** The large picture, if it is here. */
export const large = (number) => (images.get(number)?.isReady ? images.get(number) : null);

/** Fetch large pictures in this order; what is not wanted any more is given up. */
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
  if (images.get(number) !== image) return; // given up
  loading = null;
  if (images.size > KEPT_LARGE) images.delete(images.keys().next().value);
  arrived(number);
  nextLarge(arrived);
}
