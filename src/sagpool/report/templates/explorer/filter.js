// Which graphs are listed, and in which order.
const ascending = (keys) => (a, b) => keys[a] - keys[b] || a - b;
const descending = (keys) => (a, b) => keys[b] - keys[a] || a - b;

/** By name a function that gives a comparison; what is predicted has orders of its own. */
function ordersOf(graphs, predictions) {
  const changes = () => {
    // Graphs that lost no nodes come last.
    const found = Float32Array.from(graphs.names, (_, i) => predictions.change(i));
    return descending(found.map((change) => (isNaN(change) ? -Infinity : change)));
  };
  return {
    ...predictions.orders,
    "most nodes first": () => descending(graphs.columns.size),
    "fewest nodes first": () => ascending(graphs.columns.size),
    ...(graphs.levels && { "changes most given only the kept nodes": changes }),
    "by name": () => (a, b) => (graphs.lowered[a] < graphs.lowered[b] ? -1 : graphs.lowered[a] > graphs.lowered[b] ? 1 : a - b),
    "as in the data": () => (a, b) => a - b,
  };
}

const sorted = {}; // all graphs in each order that was asked for

/** Numbers of the graphs that fulfil all wishes, in order. */
function find(graphs, orders, wish) {
  const { size, unlike } = graphs.columns;
  const text = wish.text.toLowerCase();
  const found = [];
  sorted[wish.order] ??= Array.from(graphs.lowered.keys()).sort(orders[wish.order]());
  for (const i of sorted[wish.order]) {
    if (!wish.predicted(i)) continue;
    if (size[i] < wish.leastSize || size[i] > wish.mostSize) continue;
    if (wish.unlike !== null && unlike[i] !== wish.unlike) continue;
    if (text && !graphs.lowered[i].includes(text)) continue;
    found.push(i);
  }
  return found;
}
