// What the page says about a graph and its nodes.
const percent = (p) => `${(100 * p).toFixed(1)} %`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const wordFor = (graph) => (graph.molecule ? "atom" : "node");

/** A number with a true minus sign. */
const signed = (value) => value.toFixed(3).replace("-", "−");

const ofMask = (graph) => (graph.mask ? `, mask ${graph.mask}` : "");

function levelText(graph, level) {
  const word = wordFor(graph);
  const drawn = graph.count < graph.size ? `, ${graph.count.toLocaleString("en")} drawn` : "";
  if (level === 0) return `Input: ${plural(graph.size, word)}${drawn}`;
  return `Level ${level} of ${graph.kept.length}${ofMask(graph)}: ${graph.kept[level - 1].toLocaleString("en")} of ${graph.size.toLocaleString("en")} kept${drawn}`;
}

/** Label, score and the level at which it left, in one sentence. */
function nodeText(graph, node) {
  const label = graph.label(node);
  const word = wordFor(graph);
  const name = `${word[0].toUpperCase()}${word.slice(1)} ${graph.number(node)}${label ? ` (${short(label, 60)})` : ""}${ofMask(graph)}`;
  const levels = graph.scores.map((_, level) => (graph.bits[node] >>> level) & 1);
  const scores = levels.flatMap((kept, level) => {
    const score = graph.scores[level][node];
    return kept && !isNaN(score) ? [`${signed(score)} at level ${level + 1}`] : [];
  });
  const gone = levels.indexOf(0);
  const parts = [
    scores.length ? `score ${scores.join(", ")}` : null,
    !levels.length ? null : gone < 0 ? "kept to the end" : `left at level ${gone + 1}`,
    graph.truth?.[node] ? "decides the class" : null,
  ];
  const told = parts.filter(Boolean).join("; ");
  return told ? `${name}: ${told}.` : `${name}.`;
}

/** The kept and the other nodes, in words. */
function partNames(graph) {
  const word = wordFor(graph);
  const some = (count) => (count === 1 ? word : plural(count, word));
  const kept = graph.kept.at(-1);
  return [`the ${some(kept)} that the last level keeps`, `the other ${some(graph.size - kept)}`];
}

/** What is predicted given only a part of the graph, by the net whose levels these are. */
function partSentences(graphs, predictions, graph) {
  if (isNaN(predictions.change(graph.index))) return [`No ${wordFor(graph)}s were dropped, so there is nothing to compare.`];
  const by = graphs.about.net === null ? "" : ` by ${short(graphs.about.net, 60)} alone`;
  return predictions.partSentences(graph, by);
}
