// The row of pictures in which the picture screen steps to the next and previous one.

let row = { pictures: [], back: "/library", title: "Library" };

export const setRow = (pictures, back, title) => void (row = { pictures, back, title });
let selection = null; // pictures whose tags are to be written; null for all

export const setSelection = (pictures) => void (selection = pictures);
export const currentSelection = () => selection;
export const currentRow = () => row;
