// Which graphs are listed, and in which order.
const BY_LOSS = "changes most given only the kept nodes";
const ORDERS = {
  "most confident first": (g) => descending(g.confidence),
  "least confident first": (g) => ascending(g.confidence),
  "largest first": (g) => descending(g.columns.size),
  "smallest first": (g) => ascending(g.columns.size),
  [BY_LOSS]: (g) => {
    // Graphs that lost no nodes come last.
    const losses = Float32Array.from(g.confidence, (_, i) => g.loss(i)).map((loss) => (isNaN(loss) ? -2 : loss));
    return descending(losses);
  },
  "by name": (g) => (a, b) => (g.lowered[a] < g.lowered[b] ? -1 : g.lowered[a] > g.lowered[b] ? 1 : a - b),
  "as in the data": () => (a, b) => a - b,
};

const ascending = (keys) => (a, b) => keys[a] - keys[b] || a - b;
const descending = (keys) => (a, b) => keys[b] - keys[a] || a - b;

const sorted = {}; // all graphs in each order that was asked for

/** Numbers of the graphs that fulfil all wishes, in order. */
function find(graphs, wish) {
  const { true: truth, predicted, size } = graphs.columns;
  const text = wish.text.toLowerCase();
  const found = [];
  sorted[wish.order] ??= Array.from(graphs.lowered.keys()).sort(ORDERS[wish.order](graphs));
  for (const i of sorted[wish.order]) {
    if (wish.true !== null && truth[i] !== wish.true) continue;
    if (wish.predicted !== null && predicted[i] !== wish.predicted) continue;
    if (wish.verdict !== null && graphs.isRight(i) !== wish.verdict) continue;
    if (graphs.confidence[i] < wish.leastConfidence || graphs.confidence[i] > wish.mostConfidence) continue;
    if (size[i] < wish.leastSize || size[i] > wish.mostSize) continue;
    if (text && !graphs.lowered[i].includes(text)) continue;
    found.push(i);
  }
  return found;
}
