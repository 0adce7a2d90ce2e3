// The row of pictures in which the picture screen steps to the next and previous one.

let row = { pictures: [], back: "/library", title: "Library" };

export const setRow = (pictures, back, title) => void (row = { pictures, back, title });
export const currentRow = () => row;
