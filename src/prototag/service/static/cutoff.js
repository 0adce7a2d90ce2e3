// The threshold of a review batch: open cells at or above it are accepted together.

/** Return the indices of cells by descending probability; ties keep their order. */
const ranked = (cells) => cells.map((_, i) => i).sort((a, b) => cells[b].probability - cells[a].probability || a - b);

/** Count the cells at or above a probability. */
export const countAbove = (cells, probability) => cells.filter((cell) => cell.probability >= probability).length;

/** Return the set of the most probable cells. */
export const aboveThreshold = (cells, size) => new Set(ranked(cells).slice(0, size).map((i) => cells[i]));

/** Return the threshold at which so many cells are accepted; the next batch starts with it. */
export function thresholdAt(cells, size, otherwise) {
  if (!cells.length) return otherwise;
  if (size <= 0) return Math.max(...cells.map((cell) => cell.probability)) + 1e-9;
  return cells[ranked(cells)[Math.min(size, cells.length) - 1]].probability;
}
