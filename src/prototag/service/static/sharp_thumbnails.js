// Thumbnails at the size at which they are shown: the stored ones have 256 pixels, which are replaced
// by larger ones in large cells and on dense screens.

import { largeThumbnail } from "./dom.js";

const STORED = 256;
const SIDES = [512, 1024];
const TOLERANCE = 1.2; // enlarged by less than this, a picture still looks sharp
const AT_ONCE = 3; // requests at a time, so that decisions never wait for pictures

let waiting = [];
let loading = 0;

/** Return the pixels that a cell of this width needs; the stored size if that suffices. */
export function sideFor(width) {
  const wanted = (width * devicePixelRatio) / TOLERANCE;
  if (wanted <= STORED) return STORED;
  return SIDES.find((side) => wanted <= side) ?? SIDES.at(-1);
}

/** Replace the pictures of these [image, number] pairs by sharp ones; drop earlier requests. */
export function sharpen(pairs, width) {
  const side = sideFor(width);
  waiting = side === STORED ? [] : pairs.filter(([image]) => Number(image.dataset.side ?? STORED) < side).map(([image, number]) => ({ image, number, side }));
  while (loading < AT_ONCE && waiting.length) next();
}

async function next() {
  const one = waiting.shift();
  if (!one || !one.image.isConnected) return void (one && next());
  loading += 1;
  const larger = new Image();
  larger.fetchPriority = "low";
  larger.src = largeThumbnail(one.number, one.side);
  const isReady = await larger.decode().then(() => true, () => false);
  loading -= 1;
  if (isReady && one.image.isConnected) {
    one.image.src = larger.src;
    one.image.dataset.side = one.side;
  }
  next();
}
