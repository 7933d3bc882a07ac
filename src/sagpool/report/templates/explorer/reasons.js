// The list of reasons: what was counted, how often, and what it added, as a bar.
const number = (value) => (value || 0).toLocaleString("en", { maximumSignificantDigits: 3 }).replace("-", "−"); // no −0
const withSign = (value) => `${value < 0 ? "−" : "+"}${Number(Math.abs(value).toPrecision(2))}`;

function showReasons(list, graph, picture) {
  if (!list) return; // a page without reasons
  const largest = Math.max(...graph.reasons.map(({ amount }) => Math.abs(amount)));
  list.replaceChildren(...graph.reasons.map((reason) => reasonRow(reason, largest, graph, picture)));
  if (!graph.reasons.length) list.append(text("li", "Nothing that is counted tells this graph from the mean training graph."));
}

/** Pointing at a row, or going to it by keys, marks the nodes that it counts. */
function reasonRow({ name, value, amount, nodes }, largest, graph, picture) {
  const row = document.createElement("li");
  const bar = text("span", "", amount < 0 ? "amount against" : "amount");
  bar.style.setProperty("--length", Math.abs(amount) / largest);
  bar.append(text("span", withSign(amount)));
  row.append(text("span", short(name, 120), "name"), text("span", number(value), "value"), bar);
  if (nodes.length) {
    row.tabIndex = 0;
    row.role = "group"; // so that its label is read
    row.ariaLabel = `${short(name, 120)}: ${number(value)}, adds ${withSign(amount)}; marks ${plural(nodes.length, wordFor(graph))}`;
    const marks = { pointerenter: nodes, focus: nodes, pointerleave: [], blur: [] };
    for (const [event, marked] of Object.entries(marks)) row.addEventListener(event, () => picture.mark(marked));
  }
  return row;
}
