// Access to the columns graph by graph.
const GRID = 32767; // positions are whole numbers up to this, see `data.py`

/** Where the values of each graph begin, and at the end where the last ones end. */
function starts(counts) {
  const first = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) first[i + 1] = first[i] + counts[i];
  return first;
}

function bits(number) {
  let count = 0;
  for (; number; number &= number - 1) count++;
  return count;
}

class Graphs {
  constructor({ about, columns }) {
    this.about = about;
    this.columns = columns;
    this.count = columns.number.length;
    this.levels = about.levels;
    this.masks = about.masks; // 0 if each level has a single one
    this.names = about.names.map((name, i) => name ?? `${about.data} ${columns.number[i]}`);
    this.lowered = this.names.map((name) => name.toLowerCase());
    const { nodes, molecule, partial } = columns;
    this.firstNode = starts(nodes);
    this.firstEdge = starts(columns.edges);
    this.firstReason = starts(columns.reasons);
    this.firstCounted = starts(columns.reason_nodes);
    this.firstMolecule = starts(molecule);
    this.firstAtom = starts(Uint32Array.from(nodes, (n, i) => (molecule[i] ? n : 0)));
    this.firstNumber = starts(Uint32Array.from(nodes, (n, i) => (partial[i] ? n : 0)));
    this.kept = Array.from({ length: this.masks + 1 }, (_, mask) => this.keptBy(mask));
  }

  /** What a mask keeps, counted from 1; 0: what all of them keep together, or the only one. */
  keptBy(mask) {
    const [counts, kept, score] = ["kept", "bits", "score"].map((name) => this.columns[mask ? `${name}_${mask}` : name]);
    const first = starts(Uint32Array.from(this.columns.nodes, (n, i) => {
      let scores = 0;
      for (let node = this.firstNode[i]; node < this.firstNode[i + 1]; node++) scores += bits(kept[node]);
      return scores;
    }));
    return { counts, bits: kept, score, first };
  }

  get(i, mask = 0) {
    const { columns: all, firstNode, firstEdge, about } = this;
    const nodes = (column) => column.subarray(firstNode[i], firstNode[i + 1]);
    const edges = (column) => column.subarray(firstEdge[i], firstEdge[i + 1]);
    const by = this.kept[mask];
    const kept = nodes(by.bits);
    const labels = nodes(all.label);
    const numbers = all.node.subarray(this.firstNumber[i], this.firstNumber[i + 1]);
    return {
      index: i, name: this.names[i], size: all.size[i], count: kept.length, bits: kept, mask,
      source: edges(all.source), target: edges(all.target), bond: edges(all.bond),
      kept: [...by.counts.subarray(i * this.levels, (i + 1) * this.levels)],
      scores: this.scoresOf(by, i, kept),
      truth: all.truth ? nodes(all.truth) : null,
      molecule: all.molecule[i] ? this.moleculeOf(i) : null,
      reasons: this.reasonsOf(i),
      label: (node) => about.labels[labels[node]],
      number: (node) => (all.partial[i] ? numbers[node] : node),
    };
  }

  /** For each level a score for each node, NaN if it has none. */
  scoresOf(by, i, kept) {
    let next = by.first[i];
    return Array.from({ length: this.levels }, (_, level) =>
      Float32Array.from(kept, (levels) => ((levels >>> level) & 1 ? by.score[next++] : NaN)));
  }

  /** What was counted, what it added, and the drawn nodes that it counts. */
  reasonsOf(i) {
    const { reason, reason_value: value, reason_amount: amount, reason_node: node } = this.columns;
    const count = this.firstReason[i + 1] - this.firstReason[i];
    return Array.from({ length: count }, (_, place) => {
      const one = this.firstReason[i] + place;
      return {
        name: this.about.reasons[reason[one]], value: value[one], amount: amount[one],
        nodes: [...node.subarray(this.firstCounted[one], this.firstCounted[one + 1])],
      };
    });
  }

  moleculeOf(i) {
    const { x, y, symbol, extent } = this.columns;
    const [first, end] = [this.firstAtom[i], this.firstAtom[i + 1]];
    const scale = extent[this.firstMolecule[i]] / GRID;
    return {
      x: Float32Array.from(x.subarray(first, end), (value) => value * scale),
      y: Float32Array.from(y.subarray(first, end), (value) => value * scale),
      symbols: Array.from(symbol.subarray(first, end), (one) => this.about.symbols[one]),
    };
  }
}
