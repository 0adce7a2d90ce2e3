// How long a key press takes until its picture is on the screen; the benchmark reads these.

/** Measure from the last key press to the next paint after `ready` (a promise, or nothing). */
export async function painted(name, ready) {
  const [begun] = performance.getEntriesByName("key").slice(-1);
  await ready;
  requestAnimationFrame(() => setTimeout(() => {
    if (begun) performance.measure(`prototag ${name}`, { start: begun.startTime, end: performance.now() });
  }));
}
