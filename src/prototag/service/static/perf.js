// Times from a key press to the next paint, which the benchmark reads.

/** Mark the time of a key press or click, from when the browser received it. */
export function markInput(event) {
  performance.clearMarks("key");
  performance.mark("key", { startTime: event.timeStamp });
}

/** Measure the time from the last key press to the next paint after `ready` resolves. */
export async function measurePaint(name, ready) {
  const [begun] = performance.getEntriesByName("key").slice(-1);
  await ready;
  requestAnimationFrame(() => setTimeout(() => {
    if (begun) performance.measure(`prototag ${name}`, { start: begun.startTime, end: performance.now() });
  }));
}
