// Zooming and panning of pictures: one position for all panes, so that compared pictures show the
// same part. A scale is in screen pixels per pixel of the picture; null shows the whole picture.

const STEP = 1.25;
const MAX_SCALE = 8;

export class Zoom {
  scale = null;
  x = 0.5; // of the picture at the centre of the pane, as a share of its width and height
  y = 0.5;

  get isFit() {
    return this.scale === null;
  }
  fit() {
    this.scale = null;
    this.x = this.y = 0.5;
  }
  /** Switch between the whole picture and 100%, around a point of the pane if one is given. */
  toggle(pane, at = null) {
    if (!this.isFit) return this.fit();
    if (at) {
      const { left, top, width, height } = fitted(pane);
      this.x = (at.x - left) / width;
      this.y = (at.y - top) / height;
    }
    this.scale = 1;
  }
  /** Zoom in (by > 0) or out by steps, keeping the point of the picture under a point of the pane. */
  step(pane, by, at = null) {
    this.zoomTo(pane, this.current(pane) * STEP ** by, at);
  }
  zoomTo(pane, scale, at = null) {
    const least = fitScale(pane);
    if (scale <= least * 1.02) return this.fit();
    const size = pane.getBoundingClientRect();
    const before = place(pane, this);
    this.scale = Math.min(scale, Math.max(MAX_SCALE, least * 2));
    if (!at) return;
    const [u, v] = [(at.x - before.left) / before.width, (at.y - before.top) / before.height];
    const after = place(pane, this);
    this.x = u + (size.width / 2 - at.x) / after.width;
    this.y = v + (size.height / 2 - at.y) / after.height;
    this.clamp(pane);
  }
  pan(pane, dx, dy) {
    if (this.isFit) return;
    const { width, height } = place(pane, this);
    this.x -= dx / width;
    this.y -= dy / height;
    this.clamp(pane);
  }
  current(pane) {
    return this.scale ?? fitScale(pane);
  }
  /** Keep the picture inside the pane. */
  clamp(pane) {
    const size = pane.getBoundingClientRect();
    const { width, height } = place(pane, this);
    const within = (share, of, whole) => (whole <= of ? 0.5 : Math.min(Math.max(share, of / 2 / whole), 1 - of / 2 / whole));
    this.x = within(this.x, size.width, width);
    this.y = within(this.y, size.height, height);
  }
  /** Set the position of the picture in its pane. */
  show(pane) {
    const image = pane.querySelector("img");
    if (!image) return;
    pane.classList.toggle("zoomed", !this.isFit);
    if (this.isFit) return void (image.style.cssText = "");
    const { left, top, width, height } = place(pane, this);
    image.style.cssText = `position:absolute;left:0;top:0;width:${width}px;height:${height}px;max-width:none;max-height:none;object-fit:fill;transform:translate(${left}px,${top}px)`;
  }
}

/** Return the pixels of the picture in a pane; `data-full` has them once the full size is known. */
function pixels(pane) {
  const image = pane.querySelector("img");
  const [width, height] = (pane.dataset.full ?? "").split("x").map(Number);
  return width && height ? { width, height } : { width: image?.naturalWidth || 1, height: image?.naturalHeight || 1 };
}

function fitScale(pane) {
  const size = pane.getBoundingClientRect();
  const { width, height } = pixels(pane);
  return Math.min(size.width / width, size.height / height) * devicePixelRatio;
}

/** Return the box of the whole picture in a pane. */
function fitted(pane) {
  const size = pane.getBoundingClientRect();
  const { width, height } = pixels(pane);
  const scale = fitScale(pane) / devicePixelRatio;
  return { left: (size.width - width * scale) / 2, top: (size.height - height * scale) / 2, width: width * scale, height: height * scale };
}

function place(pane, zoom) {
  if (zoom.isFit) return fitted(pane);
  const size = pane.getBoundingClientRect();
  const { width, height } = pixels(pane);
  const scale = zoom.scale / devicePixelRatio;
  return { left: size.width / 2 - zoom.x * width * scale, top: size.height / 2 - zoom.y * height * scale, width: width * scale, height: height * scale };
}

/** Let the mouse wheel, drags, clicks and pinches zoom and pan; `changed` shows the result. */
export function zoomGestures(pane, zoom, changed) {
  const pointers = new Map();
  let moved = false;
  let apart = 0; // distance of two fingers
  const inside = (event) => {
    const { left, top } = pane.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  pane.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom.step(pane, event.deltaY < 0 ? 1 : -1, inside(event));
    changed();
  }, { passive: false });
  pane.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, inside(event));
    moved = pointers.size > 1;
    apart = distance(pointers);
    pane.setPointerCapture(event.pointerId);
  });
  pane.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = inside(event);
    if (Math.hypot(now.x - before.x, now.y - before.y) > (moved ? 0 : 4)) moved = true;
    else return;
    pointers.set(event.pointerId, now);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const wide = distance(pointers);
      zoom.zoomTo(pane, zoom.current(pane) * (wide / (apart || wide)), { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
      apart = wide;
      changed();
    } else if (!zoom.isFit) {
      zoom.pan(pane, now.x - before.x, now.y - before.y);
      changed();
    }
  });
  pane.addEventListener("pointerup", (event) => {
    const isClick = pointers.delete(event.pointerId) && !moved;
    if (!isClick || event.pointerType !== "mouse") return;
    zoom.toggle(pane, inside(event));
    changed();
  });
  pane.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
}

function distance(pointers) {
  if (pointers.size !== 2) return 0;
  const [a, b] = [...pointers.values()];
  return Math.hypot(a.x - b.x, a.y - b.y);
}
