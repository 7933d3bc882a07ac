// Positions of the nodes of a graph, by stochastic gradient descent on its stress (Zheng, Pawar and
// Goodman, 2018): pairs of nodes are moved, in random order, towards their distance in the graph.
// Large graphs have the pairs with a few pivots only (Ortmann, Klimenta and Brandes, 2017).
const ALL_PAIRS = 600; // nodes of a component up to which all pairs are used
const PIVOTS = 40;
const ROUNDS = 20;
const GAP = 1.2; // between components; an edge has about length 1
const LONG = 15; // times as wide as high: a component that is folded

/** {x, y} of all nodes. Components are arranged in rows, the largest first. */
function layout(count, source, target) {
  const near = adjacency(count, source, target);
  const parts = components(count, near).map((nodes) => componentLayout(nodes, near));
  return sideBySide(count, parts);
}

/** Neighbours of each node: `list` from `first[node]` to `first[node + 1]`. */
function adjacency(count, source, target) {
  const degree = new Uint32Array(count);
  source.forEach((node) => degree[node]++);
  target.forEach((node) => degree[node]++);
  const first = starts(degree);
  const list = new Uint32Array(first[count]);
  const next = first.slice();
  source.forEach((node, edge) => {
    list[next[node]++] = target[edge];
    list[next[target[edge]]++] = node;
  });
  return { first, list };
}

/** The nodes reached from one, in that order; `distance` is negative for nodes not yet reached. */
function spread(start, { first, list }, distance) {
  const reached = [start];
  distance[start] = 0;
  for (let i = 0; i < reached.length; i++) {
    const node = reached[i];
    for (let k = first[node]; k < first[node + 1]; k++) {
      if (distance[list[k]] < 0) {
        distance[list[k]] = distance[node] + 1;
        reached.push(list[k]);
      }
    }
  }
  return reached;
}

function distancesFrom(start, count, near) {
  const distance = new Int32Array(count).fill(-1);
  spread(start, near, distance);
  return distance;
}

function components(count, near) {
  const distance = new Int32Array(count).fill(-1);
  const found = [];
  for (let node = 0; node < count; node++) if (distance[node] < 0) found.push(spread(node, near, distance));
  return found.sort((a, b) => b.length - a.length || a[0] - b[0]);
}

function componentLayout(nodes, near) {
  const place = new Map(nodes.map((node, i) => [node, i]));
  const inside = adjacencyOf(nodes, near, place);
  const pairs = nodes.length <= ALL_PAIRS ? allPairs(nodes.length, inside) : pivotPairs(nodes.length, inside);
  const points = descend(nodes.length, pairs);
  return { nodes, ...folded(aligned(points)) };
}

function adjacencyOf(nodes, { first, list }, place) {
  const own = starts(nodes.map((node) => first[node + 1] - first[node]));
  const neighbours = new Uint32Array(own[nodes.length]);
  nodes.forEach((node, i) => {
    for (let k = 0; k < own[i + 1] - own[i]; k++) neighbours[own[i] + k] = place.get(list[first[node] + k]);
  });
  return { first: own, list: neighbours };
}

/** Every pair {a, b}, its distance and the weights with which a and b move. */
function allPairs(count, near) {
  const pairs = newPairs((count * (count - 1)) / 2);
  for (let a = 0; a < count; a++) {
    const distance = distancesFrom(a, count, near);
    for (let b = a + 1; b < count; b++) pairs.add(a, b, distance[b], 1 / distance[b] ** 2, 1 / distance[b] ** 2);
  }
  return pairs;
}

/** Edges, pairs of neighbours of a node, and each node with the pivots, which stand for others. */
function pivotPairs(count, { first, list }) {
  const near = { first, list };
  const pairs = newPairs(2 * list.length + count * PIVOTS);
  for (let a = 0; a < count; a++) {
    for (let k = first[a]; k < first[a + 1]; k++) {
      if (a < list[k]) pairs.add(a, list[k], 1, 1, 1);
      if (k > first[a]) pairs.add(list[k - 1], list[k], 2, 0.25, 0.25);
    }
  }
  for (const { pivot, distance, around } of spreadPivots(count, near)) {
    for (let node = 0; node < count; node++) {
      const d = distance[node];
      if (d > 1) pairs.add(node, pivot, d, around[d >> 1] / d ** 2, 0);
    }
  }
  return pairs;
}

/** Nodes far from each other; `around[d]` of the nodes nearest to one are within distance d. */
function spreadPivots(count, near) {
  let pivot = spread(0, near, new Int32Array(count).fill(-1)).at(-1);
  const nearest = new Int32Array(count).fill(count);
  const owner = new Int32Array(count);
  const found = [];
  while (found.length < PIVOTS) {
    const distance = distancesFrom(pivot, count, near);
    for (let node = 0; node < count; node++) {
      if (distance[node] < nearest[node]) {
        nearest[node] = distance[node];
        owner[node] = found.length;
      }
    }
    found.push({ pivot, distance });
    pivot = nearest.reduce((best, d, node) => (d > nearest[best] ? node : best), 0);
  }
  return found.map(({ pivot, distance }, number) => {
    const around = new Float64Array(distance.reduce((a, b) => Math.max(a, b), 0) + 1);
    for (let node = 0; node < count; node++) if (owner[node] === number) around[nearest[node]]++;
    for (let d = 1; d < around.length; d++) around[d] += around[d - 1];
    return { pivot, distance, around };
  });
}

function newPairs(most) {
  return {
    length: 0, a: new Uint32Array(most), b: new Uint32Array(most), d: new Float32Array(most),
    ofA: new Float32Array(most), ofB: new Float32Array(most),
    add(a, b, d, ofA, ofB) {
      const i = this.length++;
      this.a[i] = a; this.b[i] = b; this.d[i] = d; this.ofA[i] = ofA; this.ofB[i] = ofB;
    },
  };
}

/** The same numbers at every visit (mulberry32). */
function newRandom(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function descend(count, pairs) {
  const random = newRandom(1);
  const x = Float64Array.from({ length: count }, random);
  const y = Float64Array.from({ length: count }, random);
  // Shuffled once, in memory, and not for every round: reading in random order is slow.
  const { a, b, d, ofA, ofB } = shuffled(pairs, random);
  const longest = d.reduce((most, one) => Math.max(most, one), 1);
  for (let round = 0; round < ROUNDS; round++) {
    const step = longest ** 2 * (0.1 / longest ** 2) ** (round / (ROUNDS - 1));
    for (let i = 0; i < a.length; i++) {
      const one = a[i], other = b[i];
      const across = x[one] - x[other], up = y[one] - y[other];
      const length = Math.sqrt(across * across + up * up) + 1e-9; // Math.hypot is slow
      const move = (length - d[i]) / 2 / length;
      const ofOne = Math.min(1, ofA[i] * step) * move;
      const ofOther = Math.min(1, ofB[i] * step) * move;
      x[one] -= ofOne * across;
      y[one] -= ofOne * up;
      x[other] += ofOther * across;
      y[other] += ofOther * up;
    }
  }
  return { x, y };
}

function shuffled(pairs, random) {
  const order = Uint32Array.from({ length: pairs.length }, (_, i) => i);
  for (let i = order.length - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [order[i], order[other]] = [order[other], order[i]];
  }
  const moved = (values) => {
    const made = new values.constructor(order.length);
    for (let i = 0; i < order.length; i++) made[i] = values[order[i]];
    return made;
  };
  return { a: moved(pairs.a), b: moved(pairs.b), d: moved(pairs.d), ofA: moved(pairs.ofA), ofB: moved(pairs.ofB) };
}

/** The longest axis horizontal, the upper left corner at the origin. */
function aligned({ x, y }) {
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const [mx, my] = [mean(x), mean(y)];
  let xx = 0, xy = 0, yy = 0;
  for (let i = 0; i < x.length; i++) {
    xx += (x[i] - mx) ** 2; yy += (y[i] - my) ** 2; xy += (x[i] - mx) * (y[i] - my);
  }
  const turn = Math.atan2(2 * xy, xx - yy) / 2;
  const [c, s] = [Math.cos(turn), Math.sin(turn)];
  const turned = { x: x.map((_, i) => c * (x[i] - mx) + s * (y[i] - my)), y: y.map((_, i) => c * (y[i] - my) - s * (x[i] - mx)) };
  for (const values of [turned.x, turned.y]) {
    const least = values.reduce((a, b) => Math.min(a, b), Infinity);
    values.forEach((value, i) => { values[i] = value - least; });
  }
  return turned;
}

/** A long chain in rows that go to the right and to the left in turn. */
function folded({ x, y }) {
  const [length, height] = [x, y].map((values) => values.reduce((a, b) => Math.max(a, b), 0));
  if (length < LONG * (height + GAP)) return { x, y };
  const apart = height + 2 * GAP;
  const rows = Math.ceil(Math.sqrt(length / (2 * apart)));
  const width = length / rows;
  const row = x.map((value) => Math.min(Math.floor(value / width), rows - 1));
  const along = x.map((value, i) => value - row[i] * width);
  return { x: along.map((value, i) => (row[i] % 2 ? width - value : value)), y: y.map((value, i) => value + row[i] * apart) };
}

function sideBySide(count, parts) {
  const side = (values) => values.reduce((a, b) => Math.max(a, b), 0) + GAP;
  const boxes = parts.map((part) => ({ part, across: side(part.x), down: side(part.y) }));
  const area = boxes.reduce((sum, box) => sum + box.across * box.down, 0);
  const width = boxes.reduce((most, box) => Math.max(most, box.across), 1.3 * Math.sqrt(area));
  const x = new Float32Array(count), y = new Float32Array(count);
  let left = 0, top = 0, height = 0;
  for (const { part, across, down } of boxes) {
    if (left > 0 && left + across > width + 1e-9) {
      top += height;
      left = height = 0;
    }
    part.nodes.forEach((node, i) => { x[node] = left + part.x[i]; y[node] = top + part.y[i]; });
    left += across;
    height = Math.max(height, down);
  }
  return { x, y };
}
