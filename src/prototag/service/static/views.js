// What is known of pictures, asked for ahead, so that the next one is there when its key is pressed.

import { get } from "./api.js";
import { preview } from "./dom.js";

const KEPT = 60;
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

const images = new Map();

/** The large picture as an element that is decoded, or will be. */
export function large(number) {
  if (!images.has(number)) {
    const image = new Image();
    image.src = preview(number, side());
    image.ready = image.decode().then(() => (image.isReady = true), () => {});
    images.set(number, image);
    if (images.size > 12) images.delete(images.keys().next().value);
  }
  return images.get(number);
}
