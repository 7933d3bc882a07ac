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

/** What the model predicts given only the kept, and only the dropped nodes. */
function partSentences(graphs, graph) {
  const { predicted, net_predicted: net, part_predicted: given, part_probability: probability } = graphs.columns;
  const i = graph.index;
  const word = wordFor(graph);
  if (isNaN(probability[2 * i])) return [`No ${word}s were dropped, so there is nothing to compare.`];
  const name = short(graphs.classes[predicted[i]], 60);
  const whole = percent(graphs.columns.net_probability[i]);
  const by = graphs.about.net === null ? "" : ` by ${short(graphs.about.net, 60)} alone`;
  if (net[i] !== predicted[i]) {
    // The net that pools was outvoted, so its parts cannot give the prediction of the model.
    const [kept, dropped] = [0, 1].map((part) => percent(probability[2 * i + part]));
    return [
      `Given the whole graph, the prediction${by} is “${short(graphs.classes[net[i]], 60)}”, so the kept ${word}s do not explain “${name}”, which has ${whole}.`,
      `Given only the kept ${word}s it has ${kept}, given only the others ${dropped}.`,
    ];
  }
  const same = [0, 1].map((part) => given[2 * i + part] === predicted[i]);
  const about = (part, which) => {
    const other = short(graphs.classes[given[2 * i + part]], 60);
    const p = percent(probability[2 * i + part]);
    return same[part]
      ? `Given only ${which}, the prediction stays “${name}”, with ${p}.`
      : `Given only ${which}, the prediction changes to “${other}”; “${name}” has ${p}.`;
  };
  const some = (count) => (count === 1 ? word : plural(count, word));
  const kept = graph.kept.at(-1);
  const verdict = {
    "true,true": "Each part alone gives this prediction.",
    "true,false": `The kept ${word}s alone give this prediction, the others do not.`,
    "false,true": `The dropped ${word}s alone give this prediction, the kept ones do not.`,
    "false,false": "Neither part alone gives this prediction.",
  };
  return [
    `Given the whole graph, “${name}” has ${whole}${by}.`,
    about(0, `the ${some(kept)} that the last level keeps`),
    about(1, `the other ${some(graph.size - kept)}`),
    verdict[same],
  ];
}
