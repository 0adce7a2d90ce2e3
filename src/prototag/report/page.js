document.querySelectorAll("table.sortable").forEach(table => {
  const body = table.tBodies[0], rows = [...body.rows];
  const key = (row, i) => row.cells[i].dataset.v ?? row.cells[i].textContent.trim();
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const numeric = head.classList.contains("number");
      const before = head.getAttribute("aria-sort");
      const way = before ? (before === "ascending" ? -1 : 1) : numeric ? -1 : 1;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      const value = row => numeric ? (key(row, i) === "" ? -Infinity : +key(row, i)) : key(row, i);
      const order = numeric ? (a, b) => way * (value(a) - value(b) || 0)
        : (a, b) => way * value(a).localeCompare(value(b));
      body.append(...rows.sort(order));
    };
  });
  if (rows.length < 15) return;
  const search = document.createElement("input");
  search.type = "search";
  search.className = "filter";
  search.placeholder = "Filter " + rows.length.toLocaleString("en") + " rows";
  search.setAttribute("aria-label", search.placeholder);
  search.oninput = () => {
    const wanted = search.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  };
  table.parentNode.before(search);
});
