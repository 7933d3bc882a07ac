// A list of any length: only the rows in sight are elements.
const ROW = 56; // pixels

class List {
  /**
   * @param element scrolls, and has the focus
   * @param rows is as high as all rows
   * @param fill writes what a graph's row shows
   * @param choose is called with a graph when the reader picks it
   */
  constructor(element, rows, fill, choose) {
    Object.assign(this, { element, rows, fill, choose, order: [], chosen: -1 });
    element.addEventListener("scroll", () => this.render(), { passive: true });
    new ResizeObserver(() => this.render()).observe(element);
    rows.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.choose(this.order[row.dataset.place]);
    });
  }

  show(order) {
    this.order = order;
    this.rows.style.height = `${order.length * ROW}px`;
    this.element.scrollTop = 0;
    this.mark(this.chosen);
  }

  /** Mark a graph as chosen, and scroll to it if it is listed. */
  mark(graph) {
    this.chosen = graph;
    const place = this.order.indexOf(graph);
    if (place >= 0) {
      const top = place * ROW;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop) this.element.scrollTop = top;
      else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
    }
    this.render();
  }

  /** The graph that is so many rows further down, or the first or last one. */
  beside(steps) {
    const place = this.order.indexOf(this.chosen);
    const next = place < 0 ? 0 : Math.min(Math.max(place + steps, 0), this.order.length - 1);
    return this.order[next];
  }

  get page() {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
  }

  render() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 4);
    const last = Math.min(this.order.length, first + Math.ceil(this.element.clientHeight / ROW) + 8);
    const rows = [];
    for (let place = first; place < last; place++) {
      const row = document.createElement("div");
      row.id = `row-${place}`;
      row.role = "option";
      row.className = "row";
      row.dataset.place = place;
      row.ariaSetSize = this.order.length;
      row.ariaPosInSet = place + 1;
      row.ariaSelected = this.order[place] === this.chosen;
      row.style.height = `${ROW}px`;
      row.style.top = `${place * ROW}px`;
      this.fill(row, this.order[place]);
      rows.push(row);
    }
    this.rows.replaceChildren(...rows);
    const active = this.rows.querySelector("[aria-selected=true]");
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }
}
