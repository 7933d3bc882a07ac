// The picture of a graph: what a level keeps is coloured by its score, what it dropped is faded.
const SVG = "http://www.w3.org/2000/svg";
const SCORES = [[61, 127, 203], [148, 185, 224], [240, 237, 232], [243, 173, 149], [219, 84, 64]];
const PLAIN = "#d4d8dd"; // a node without a score
const ATOM = 0.42; // radius of the disc of an atom; a bond has length 1
const MOST_LABELLED = 150; // nodes
const MANY = 1000; // nodes that are not elements of their own
const LARGEST = 12; // times that the picture can be zoomed in
// Inside the picture, so that a saved one looks the same.
const STYLE = `
.line, .node, .ring, .truth { fill: none; stroke: currentColor; stroke-linecap: round; stroke-linejoin: round; }
.node { stroke: #1a1a1a; } .ring { stroke: #b4480a; } .truth { stroke: #e0a008; }
.mark { fill: none; stroke: #db5440; stroke-linecap: round; opacity: 0.45; pointer-events: none; }
.faded { opacity: 0.28; } .dark { color: #1a1a1a; }
.letter, .label { fill: currentColor; font-family: system-ui, "DejaVu Sans", sans-serif; text-anchor: middle; dominant-baseline: central; }
.label { fill: #1a1a1a; }`;

function scoreColour(score) {
  if (isNaN(score)) return PLAIN;
  const place = ((Math.min(Math.max(score, -1), 1) + 1) / 2) * (SCORES.length - 1);
  const low = Math.min(Math.floor(place), SCORES.length - 2);
  const mixed = SCORES[low].map((value, i) => Math.round(value + (place - low) * (SCORES[low + 1][i] - value)));
  return `rgb(${mixed.join(" ")})`;
}

function make(name, attributes = {}, children = []) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

class Picture {
  /** @param tell is called with a node when the reader points at it, or goes to it by keys */
  constructor(svg, tell) {
    Object.assign(this, { svg, tell, node: -1 });
    svg.addEventListener("pointermove", (event) => this.point(event));
    svg.addEventListener("pointerdown", (event) => this.point(event));
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    }, { passive: false });
  }

  show(graph, level) {
    const before = this.graph?.index;
    this.graph = graph; // of the same graph perhaps what another mask keeps
    if (before !== graph.index) {
      const { x, y } = graph.molecule ?? layout(graph.count, graph.source, graph.target);
      Object.assign(this, { x, y, node: -1 });
      this.radius = graph.molecule ? ATOM : nodeRadius(x, y);
      this.hasLabels = graph.count <= MOST_LABELLED && !labelsAreDegrees(graph);
      this.strokes = graph.molecule ? moleculeStrokes(graph.molecule, graph.source, graph.target, graph.bond) : null;
      this.fit();
    }
    this.level = level;
    this.svg.replaceChildren(make("style", {}, [STYLE]), ...(this.strokes ? this.molecule() : this.plain()));
    this.ring = make("circle", { class: "ring", "stroke-width": 3 });
    this.svg.append(this.ring);
    this.highlight();
    this.mark([]);
  }

  /** Mark the nodes that a reason counts, in place of those before. */
  mark(nodes) {
    this.svg.querySelector(".mark")?.remove();
    if (nodes.length) this.svg.append(this.dots(nodes, this.radius * 1.2, { class: "mark" }));
  }

  isKept(node) {
    return this.level === 0 || (this.graph.bits[node] >>> (this.level - 1)) & 1;
  }

  colour(node) {
    return this.level === 0 ? PLAIN : scoreColour(this.graph.scores[this.level - 1][node]);
  }

  plain() {
    const { graph, x, y } = this;
    const lines = { faded: [], whole: [] };
    graph.source.forEach((a, i) => {
      const b = graph.target[i];
      const kept = this.isKept(a) && this.isKept(b);
      lines[kept ? "whole" : "faded"].push(`M${fixed(x[a])} ${fixed(y[a])}L${fixed(x[b])} ${fixed(y[b])}`);
    });
    // Dense graphs have thinner edges, which would be a dark mass otherwise.
    const thin = Math.min(1, Math.sqrt((3 * graph.count) / Math.max(graph.source.length, 1)));
    const width = Math.max(0.6, thin * Math.min(2, 0.2 * this.radius * UNIT));
    const made = [
      make("path", { class: "line", d: lines.faded.join(""), "stroke-width": width, opacity: 0.28 * thin }),
      make("path", { class: "line", d: lines.whole.join(""), "stroke-width": width, opacity: 0.85 * thin }),
    ];
    const kept = [], gone = [], truth = [];
    for (let node = 0; node < graph.count; node++) {
      (this.isKept(node) ? kept : gone).push(node);
      if (graph.truth?.[node]) truth.push(make("circle", { ...this.at(node), class: "truth", r: this.size(node) + 4, "stroke-width": 3 }));
    }
    const nodes = graph.count > MANY ? this.batches(kept) : kept.map((node) => this.circle(node));
    const labels = this.hasLabels ? kept.map((node) => this.labelOf(node)).filter(Boolean) : [];
    return [...made, this.dots(gone, this.radius / 2, { class: "line faded" }), ...truth, ...nodes, ...labels];
  }

  at(node) {
    return { cx: fixed(this.x[node]), cy: fixed(this.y[node]) };
  }

  size(node) {
    return fixed(this.isKept(node) ? this.radius : this.radius / 2);
  }

  circle(node) {
    const r = fixed(this.radius);
    return make("circle", { ...this.at(node), class: "node", r, style: `fill: ${this.colour(node)}`, "stroke-width": Math.min(1.5, 0.1 * r) });
  }

  /** Nodes of one colour as one element: lines of no length with round ends. */
  dots(nodes, radius, attributes) {
    const d = nodes.map((node) => `M${fixed(this.x[node])} ${fixed(this.y[node])}h0`).join("");
    return make("path", { ...attributes, d, "stroke-width": 2 * fixed(radius) });
  }

  /** Very many nodes, in elements of equal colours. */
  batches(nodes) {
    const score = (node) => (this.level === 0 ? NaN : Math.round(this.graph.scores[this.level - 1][node] * 16) / 16);
    const groups = Map.groupBy(nodes, score);
    const outline = this.dots(nodes, this.radius * 1.15, { class: "line", style: "stroke: #1a1a1a" });
    return [outline, ...Array.from(groups, ([value, group]) => this.dots(group, this.radius, { class: "line", style: `stroke: ${scoreColour(value)}` }))];
  }

  labelOf(node) {
    const text = this.graph.label(node);
    const size = UNIT * Math.min(1.2 * this.radius, (2.6 * this.radius) / Math.max(text.length, 1));
    if (!text || size < 4) return null; // too small to read
    return make("text", { class: "label", x: fixed(this.x[node]), y: fixed(this.y[node]), "font-size": size }, [text]);
  }

  molecule() {
    const { graph, x, y } = this;
    const discs = [];
    const clip = make("clipPath", { id: "discs" });
    for (let node = 0; node < graph.count; node++) {
      const at = { cx: fixed(x[node]), cy: fixed(y[node]) };
      if (graph.truth?.[node]) discs.push(make("circle", { ...at, class: "truth", r: UNIT * ATOM + 4, "stroke-width": 3 }));
      if (this.level === 0 || !this.isKept(node)) continue;
      discs.push(make("circle", { ...at, class: "node", r: UNIT * ATOM, style: `fill: ${this.colour(node)}`, "stroke-width": 0.8 }));
      clip.append(make("circle", { ...at, r: UNIT * ATOM }));
    }
    // Discs are light, so strokes on top of them are dark even if the page is not.
    const onDiscs = make("g", { class: "dark", "clip-path": "url(#discs)" }, this.strokesOf(true));
    return [clip, make("g", { class: "faded" }, this.strokesOf(false)), make("g", {}, this.strokesOf(true)), ...discs, onDiscs];
  }

  /** The strokes between kept atoms, or all others. */
  strokesOf(kept) {
    const { strokes, letters } = this.strokes;
    const chosen = strokes.filter(({ nodes }) => Boolean(this.isKept(nodes[0]) && this.isKept(nodes[1])) === kept);
    const lines = chosen.map(({ d, filled, dashed }) => make("path", {
      class: "line", d, "stroke-width": filled ? 1 : 2.2, ...(filled && { style: "fill: currentColor" }), ...(dashed && { "stroke-dasharray": "4 5" }),
    }));
    const texts = letters.filter(({ node }) => Boolean(this.isKept(node)) === kept).flatMap((letter) => this.letters(letter));
    return [...lines, ...texts];
  }

  letters({ node, text, before, after }) {
    const size = 0.56 * UNIT;
    const [atX, atY] = [fixed(this.x[node]), fixed(this.y[node])];
    const half = 0.34 * size * text.length;
    const write = (words, x, anchor) => make("text", { class: "letter", x, y: atY, "font-size": size, style: `text-anchor: ${anchor}` }, [words]);
    const made = [write(text, atX, "middle")];
    if (before) made.push(write(before, atX - half, "end"));
    if (after) made.push(write(after, atX + half, "start"));
    return made;
  }

  /** Show everything, but tiny graphs not too large. */
  fit() {
    const reach = (values) => [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const [[left, right], [top, bottom]] = [reach(this.x), reach(this.y)];
    const margin = UNIT * (this.radius + (this.strokes ? 0.7 : 0.3));
    const least = this.graph.count < 12 ? 9 : 4;
    const width = Math.max(UNIT * (right - left) + 2 * margin, least * UNIT);
    const height = Math.max(UNIT * (bottom - top) + 2 * margin, 0.65 * least * UNIT);
    this.box = { x: (UNIT * (left + right) - width) / 2, y: (UNIT * (top + bottom) - height) / 2, width, height };
    this.whole = { ...this.box };
    this.look();
  }

  zoom(factor) {
    const { box, whole } = this;
    const scale = Math.min(Math.max((whole.width / box.width) * factor, 1), LARGEST);
    const centre = this.node >= 0
      ? { x: UNIT * this.x[this.node], y: UNIT * this.y[this.node] }
      : { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const [width, height] = [whole.width / scale, whole.height / scale];
    const within = (value, low, room) => Math.min(Math.max(value, low), low + room);
    this.box = {
      x: within(centre.x - width / 2, whole.x, whole.width - width),
      y: within(centre.y - height / 2, whole.y, whole.height - height), width, height,
    };
    this.look();
  }

  look() {
    const { x, y, width, height } = this.box;
    this.svg.setAttribute("viewBox", [x, y, width, height].map((value) => value.toFixed(1)).join(" "));
  }

  /** Tell about the nearest node, if it is near. */
  point(event) {
    if (!this.graph) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    let best = -1, least = Math.max(this.radius, 0.5) ** 2;
    for (let node = 0; node < this.graph.count; node++) {
      const distance = (this.x[node] - at.x / UNIT) ** 2 + (this.y[node] - at.y / UNIT) ** 2;
      if (distance < least) [best, least] = [node, distance];
    }
    if (best >= 0 && best !== this.node) this.select(best);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const { count } = this.graph;
    if (event.key in steps) this.select((Math.max(this.node, steps[event.key] < 0 ? 0 : -1) + steps[event.key] + count) % count);
    else if (event.key === "Home") this.select(0);
    else if (event.key === "End") this.select(count - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  select(node) {
    this.node = node;
    this.highlight();
    this.tell(node);
  }

  highlight() {
    this.ring.style.display = this.node < 0 ? "none" : "";
    if (this.node < 0) return;
    const at = { cx: fixed(this.x[this.node]), cy: fixed(this.y[this.node]), r: fixed(this.radius) + 4 };
    for (const [key, value] of Object.entries(at)) this.ring.setAttribute(key, value);
  }

  /** The picture as a file, black on white. */
  file() {
    const copy = this.svg.cloneNode(true);
    for (const name of ["id", "class", "tabindex", "role", "aria-roledescription", "aria-label"]) copy.removeAttribute(name);
    copy.querySelector(".ring").remove();
    const { x, y, width, height } = this.box;
    copy.setAttribute("style", "color: #22252a");
    copy.setAttribute("width", width.toFixed(0));
    copy.setAttribute("height", height.toFixed(0));
    copy.prepend(make("rect", { x, y, width, height, fill: "#ffffff" }));
    return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  }
}

/** Such labels add nothing to a picture. */
function labelsAreDegrees(graph) {
  const { first } = adjacency(graph.count, graph.source, graph.target);
  return graph.bits.every((_, node) => graph.label(node) === String(first[node + 1] - first[node]));
}

/** Less than half of the distance to the nearest other node, for most nodes. */
function nodeRadius(x, y) {
  if (x.length < 2) return 0.35;
  const sample = Math.ceil(x.length / 300);
  const nearest = [];
  for (let a = 0; a < x.length; a += sample) {
    let least = Infinity;
    for (let b = 0; b < x.length; b++) {
      if (a !== b) least = Math.min(least, (x[a] - x[b]) ** 2 + (y[a] - y[b]) ** 2);
    }
    nearest.push(Math.sqrt(least));
  }
  nearest.sort((a, b) => a - b);
  const crowded = nearest[Math.floor(nearest.length * (x.length <= 60 ? 0.05 : 0.3))];
  const side = Math.max(...[x, y].map((values) => values.reduce((a, b) => Math.max(a, b), 0)));
  return Math.max(Math.min(0.45 * crowded, 0.32), 0.12, side / 500);
}
