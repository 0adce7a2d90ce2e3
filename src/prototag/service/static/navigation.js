// The row of pictures that somebody is going through, so that next and previous mean something.

let row = { pictures: [], back: "/library", title: "Library" };

export const going = (pictures, back, title) => void (row = { pictures, back, title });
export const through = () => row;
