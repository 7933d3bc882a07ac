// Tables are sorted by a click on the head of a column; groups of rows stay together.
const NUMBER = /-?\d[\d,]*\.?\d*(e[-+]?\d+)?/i;

/** The first number in a cell, or its text; undefined if it is empty. */
function valueOf(row, column, isNumber) {
  const words = row.cells[column].textContent.trim();
  if (!isNumber) return words || undefined;
  const found = words.replaceAll("−", "-").match(NUMBER);
  return found ? Number(found[0].replaceAll(",", "")) : undefined;
}

function order(rows, column, isNumber, direction) {
  const valued = rows.map((row) => ({ row, value: valueOf(row, column, isNumber) }));
  const compare = isNumber ? (a, b) => a - b : (a, b) => a.localeCompare(b, undefined, { numeric: true });
  return valued.sort((a, b) => {
    if (a.value === undefined || b.value === undefined) return (a.value === undefined) - (b.value === undefined);
    return direction * compare(a.value, b.value);
  }).map(({ row }) => row);
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const bodies = [...table.tBodies].map((body) => ({ body, rows: [...body.rows] })); // as they were
  let sorted = null;

  const show = (wanted) => {
    for (const { body, rows } of bodies) {
      const own = rows.filter((row) => !row.classList.contains("group"));
      const group = rows.filter((row) => row.classList.contains("group"));
      body.append(...group, ...(wanted ? order(own, wanted.column, wanted.isNumber, wanted.direction) : own));
    }
    heads.forEach((head, i) => {
      if (wanted?.column === i) head.setAttribute("aria-sort", wanted.direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  };

  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    const isNumber = head.classList.contains("num");
    const first = isNumber ? -1 : 1; // the highest number first, then the lowest, then as it was
    button.addEventListener("click", () => {
      if (sorted?.column !== column) sorted = { column, isNumber, direction: first };
      else sorted = sorted.direction === first ? { ...sorted, direction: -first } : null;
      show(sorted);
    });
  });
  return { print: () => show(null), after: () => show(sorted) };
}

const tables = [...document.querySelectorAll(".scroll > table:not(.heat)")].map(makeSortable);
// On paper, rows are in the order of the document.
const onPaper = (yes) => tables.forEach((table) => (yes ? table.print() : table.after()));
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
