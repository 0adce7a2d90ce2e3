// The line of doubt: of the open cells of a sheet, how many are taken to be right when it is accepted.

/** Places of all cells from the likeliest on, as they stand where they are as likely. */
const ranked = (cells) => cells.map((_, i) => i).sort((a, b) => cells[b].probability - cells[a].probability || a - b);

/** How many cells are above the line if it lies at a probability. */
export const above = (cells, probability) => cells.filter((cell) => cell.probability >= probability).length;

/** The cells above a line that has so many above it. */
export const certain = (cells, size) => new Set(ranked(cells).slice(0, size).map((i) => cells[i]));

/** The probability of the last cell above the line, from which the next sheet goes on. */
export function height(cells, size, otherwise) {
  if (!cells.length) return otherwise;
  if (size <= 0) return Math.max(...cells.map((cell) => cell.probability)) + 1e-9;
  return cells[ranked(cells)[Math.min(size, cells.length) - 1]].probability;
}
