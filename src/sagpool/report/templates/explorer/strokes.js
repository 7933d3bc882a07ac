// A molecule as strokes: lines of bonds, wedges, and the letters of atoms.
const APART = 0.16; // two lines of a double bond; a bond has length 1
const LETTER = 0.3; // half of a letter, which bonds do not cross

/** Lines and shapes of all bonds, {d, filled, nodes}, and letters {node, text, before, after}. */
function moleculeStrokes({ x, y, symbols }, source, target, bond) {
  const count = symbols.length;
  const { first, list } = adjacency(count, source, target);
  const degree = (node) => first[node + 1] - first[node];
  const letters = [];
  const written = symbols.map(([text, hydrogens, charge], node) => {
    if (text === "C" && !charge && degree(node)) return false;
    // Hydrogens are on the side without bonds.
    let lean = 0;
    for (let k = first[node]; k < first[node + 1]; k++) lean += x[list[k]] - x[node];
    const around = (hydrogens ? "H" : "") + (hydrogens > 1 ? subscript(hydrogens) : "");
    const sign = charge ? superscript(charge) : "";
    const left = degree(node) && lean > 0.1;
    letters.push({ node, text: raised(text), before: left ? around : "", after: (left ? "" : around) + sign });
    return true;
  });
  const strokes = [];
  source.forEach((a, i) => {
    const b = target[i];
    const line = newLine(x, y, a, b, written);
    const side = innerSide(x, y, a, b, first, list);
    const centred = degree(a) === 1 || degree(b) === 1 || !side;
    const add = (d, filled, dashed) => strokes.push({ d, filled, dashed, nodes: [a, b] });
    if (bond[i] === 4) add(line.wedge(), true);
    else if (bond[i] === 5) line.hashes().forEach((d) => add(d));
    else if (bond[i] === 2 && centred) [-APART / 2, APART / 2].forEach((off) => add(line.at(off)));
    else {
      add(line.at(0));
      if (bond[i] === 2 || bond[i] === 6) add(line.at(APART * (side || 1), 0.12), false, bond[i] === 6);
      if (bond[i] === 3) [-APART, APART].forEach((off) => add(line.at(off)));
    }
  });
  return { strokes, letters };
}

const subscript = (n) => String(n).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);

const raised = (text) => text.replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
const superscript = (charge) => raised(Math.abs(charge) > 1 ? String(Math.abs(charge)) : "") + (charge > 0 ? "⁺" : "⁻");

/** On which side of a bond more neighbours are: 1, -1, or 0 for neither. */
function innerSide(x, y, a, b, first, list) {
  let balance = 0;
  for (const [end, other] of [[a, b], [b, a]]) {
    for (let k = first[end]; k < first[end + 1]; k++) {
      const node = list[k];
      if (node === other) continue;
      balance += Math.sign((x[b] - x[a]) * (y[node] - y[a]) - (y[b] - y[a]) * (x[node] - x[a]));
    }
  }
  return Math.sign(balance);
}

/** A bond from a to b, which ends before letters. */
function newLine(x, y, a, b, written) {
  const length = Math.hypot(x[b] - x[a], y[b] - y[a]) || 1e-9;
  const [ux, uy] = [(x[b] - x[a]) / length, (y[b] - y[a]) / length];
  const from = written[a] ? LETTER : 0;
  const to = length - (written[b] ? LETTER : 0);
  const point = (along, off) => `${fixed(x[a] + along * ux - off * uy)} ${fixed(y[a] + along * uy + off * ux)}`;
  return {
    at: (off, shorter = 0) =>
      `M${point(Math.max(from, shorter), off)}L${point(Math.min(to, length - shorter), off)}`,
    wedge: () => `M${point(from, 0)}L${point(to, 0.13)}L${point(to, -0.13)}Z`,
    hashes: () => {
      const marks = 6;
      return Array.from({ length: marks }, (_, i) => {
        const part = (i + 1) / marks;
        const along = from + part * (to - from);
        return `M${point(along, 0.13 * part)}L${point(along, -0.13 * part)}`;
      });
    },
  };
}

const UNIT = 40; // of an edge, in the coordinates of the picture
const fixed = (value) => Math.round(value * UNIT * 10) / 10;
