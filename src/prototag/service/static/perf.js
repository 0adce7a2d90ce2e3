// Times from a key press to the next paint, which the benchmark reads.

/** Measure the time from the last key press to the next paint after `ready` resolves. */
export async function measurePaint(name, ready) {
  const [begun] = performance.getEntriesByName("key").slice(-1);
  await ready;
  requestAnimationFrame(() => setTimeout(() => {
    if (begun) performance.measure(`prototag ${name}`, { start: begun.startTime, end: performance.now() });
  }));
}
