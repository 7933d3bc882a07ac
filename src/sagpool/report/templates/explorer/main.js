// The page: the state, and what the reader's clicks and keys do to it.
const element = (id) => document.getElementById(id);
const data = element("data");
const graphs = new Graphs(await unpack(data.textContent));
data.remove();
const state = { graph: null, level: Math.min(1, graphs.levels), mask: 0 };

const list = new List(element("list"), element("rows"), fillRow, open);
const picture = new Picture(element("picture"), (node) => { element("node").textContent = nodeText(state.graph, node); });

function text(tag, content, className = "") {
  const made = document.createElement(tag);
  made.textContent = content;
  made.className = className;
  return made;
}

function fillRow(row, i) {
  const { true: truth, predicted, size } = graphs.columns;
  const right = graphs.isRight(i);
  const expected = right === false ? `${short(graphs.classes[truth[i]], 40)} → ` : "";
  row.classList.toggle("wrong", right === false);
  row.append(
    text("span", short(graphs.names[i], 120), "name"),
    text("span", expected + short(graphs.classes[predicted[i]], 40), "class"),
    ...(right === false ? [text("span", "wrong", "verdict")] : []),
    text("span", `${plural(size[i], graphs.columns.molecule[i] ? "atom" : "node")}`, "size"),
    text("span", percent(graphs.confidence[i]), "confidence"),
  );
  row.style.setProperty("--confidence", graphs.confidence[i]);
}

function options(select, names) {
  select.replaceChildren(new Option("all", ""), ...names.map((name, i) => new Option(short(name, 60), i)));
}

function wish() {
  const number = (id, otherwise) => (element(id).value === "" ? otherwise : Number(element(id).value));
  const choice = (id) => (element(id).value === "" ? null : Number(element(id).value));
  const verdict = element("verdict").value;
  return {
    text: element("search").value.trim(), true: choice("true"), predicted: choice("predicted"),
    verdict: verdict ? verdict === "right" : null,
    leastConfidence: number("least-confidence", 0) / 100 - 5e-7,
    mostConfidence: number("most-confidence", 100) / 100 + 5e-7,
    leastSize: number("least-size", 0), mostSize: number("most-size", Infinity),
    order: element("order").value,
  };
}

function filter() {
  const found = find(graphs, wish());
  list.show(found);
  const all = graphs.count.toLocaleString("en");
  element("count").textContent =
    found.length === graphs.count ? plural(graphs.count, "graph") : `${found.length.toLocaleString("en")} of ${all} graphs`;
  element("reset").hidden = found.length === graphs.count;
}

function open(i, view = "graph") {
  state.graph = graphs.get(i, state.mask);
  document.body.dataset.view = view;
  element("graph").hidden = false;
  list.mark(i);
  const { true: truth, predicted } = graphs.columns;
  const right = graphs.isRight(i);
  element("name").textContent = short(graphs.names[i], 300);
  element("told").replaceChildren(
    ...(right === undefined ? ["predicted "] : ["class ", text("b", graphs.classes[truth[i]]), ", predicted "]),
    text("b", graphs.classes[predicted[i]]), ` with ${percent(graphs.confidence[i])} `,
    ...(right === undefined ? [] : [text("span", right ? "right" : "wrong", `verdict ${right ? "right" : "wrong"}`)]),
  );
  showReasons(element("reasons"), state.graph, picture);
  element("parts").replaceChildren(...partSentences(graphs, graphs.get(i)).map((sentence) => text("p", sentence)));
  element("classes").replaceChildren(...probabilities(i));
  const word = wordFor(state.graph);
  element("node-head").textContent = word === "atom" ? "Atom" : "Node";
  showLevel(state.level);
  element("node").textContent = `Point at ${word === "atom" ? "an atom" : "a node"}, or focus the picture and use the arrow keys.`;
  history.replaceState(null, "", `#${graphs.columns.number[i]}`);
}

function probabilities(i) {
  const count = graphs.classes.length;
  const of = graphs.columns.probability.subarray(i * count, (i + 1) * count);
  const order = [...of.keys()].sort((a, b) => of[b] - of[a]);
  const rows = order.slice(0, 8).map((one) => {
    const row = document.createElement("li");
    row.append(text("span", short(graphs.classes[one], 60), "class"), text("span", percent(of[one]), "value"));
    row.style.setProperty("--confidence", of[one]);
    return row;
  });
  return count > 8 ? [...rows, text("li", `and ${count - 8} others`, "rest")] : rows;
}

function showLevel(level) {
  state.level = level;
  element("level").value = level;
  const told = levelText(state.graph, level);
  element("level").ariaValueText = told;
  element("level-text").textContent = told;
  picture.show(state.graph, level);
  element("picture").ariaLabel = `${short(state.graph.name, 100)}. ${told}. Arrow keys go through its ${wordFor(state.graph)}s.`;
}

function showMask(mask) {
  state.mask = mask;
  state.graph = graphs.get(state.graph.index, mask);
  showLevel(state.level);
  if (picture.node >= 0) picture.tell(picture.node);
}

function backToList() {
  document.body.dataset.view = "list";
  element("list").focus();
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(picture.file());
  const level = (graphs.levels ? `-level-${state.level}` : "") + (state.mask ? `-mask-${state.mask}` : "");
  link.download = `graph-${graphs.columns.number[state.graph.index]}${level}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function legend() {
  const made = [];
  if (graphs.about.scored) made.push(text("span", "score −1"), text("span", "", "bar"), text("span", "1"));
  if (graphs.levels) made.push(text("span", "dropped", "dropped"));
  if (graphs.columns.truth) made.push(text("span", "decides the class", "truth"));
  element("legend").append(...made);
}

/** Keys of the whole page; fields keep their own. */
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = event.target.matches("input, select");
  const moves = {
    ArrowDown: 1, ArrowUp: -1, PageDown: list.page, PageUp: -list.page, Home: -Infinity, End: Infinity,
  };
  if (event.key === "Escape") {
    if (inField) element("list").focus();
    else backToList();
  } else if (inField) {
    if (event.target === element("search") && event.key === "ArrowDown") element("list").focus();
    else return;
  } else if (event.key === "/") element("search").focus();
  else if (event.key in moves && list.order.length) {
    open(list.beside(moves[event.key]), document.body.dataset.view);
  } else if (event.key === "Enter" && event.target === element("list") && state.graph) {
    document.body.dataset.view = "graph";
  } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const next = state.level + (event.key === "ArrowLeft" ? -1 : 1);
    if (state.graph && next >= 0 && next <= graphs.levels) showLevel(next);
  } else return;
  event.preventDefault();
}

options(element("true"), graphs.classes);
options(element("predicted"), graphs.classes);
element("order").replaceChildren(...Object.keys(ORDERS).filter((name) => graphs.levels || name !== BY_LOSS).map((name) => new Option(name)));
element("level").max = graphs.levels;
element("mask-field").hidden = !graphs.masks;
element("mask").replaceChildren(new Option("all", 0), ...Array.from({ length: graphs.masks }, (_, i) => new Option(i + 1, i + 1)));
element("parts-section").hidden = graphs.levels === 0;
document.querySelectorAll(".of-truth").forEach((field) => { field.hidden = !graphs.knowsTruth; });
legend();
element("filters").addEventListener("input", filter);
element("filters").addEventListener("submit", (event) => event.preventDefault());
element("reset").addEventListener("click", () => { element("filters").reset(); filter(); element("list").focus(); });
element("level").addEventListener("input", (event) => showLevel(Number(event.target.value)));
element("mask").addEventListener("input", (event) => showMask(Number(event.target.value)));
element("back").addEventListener("click", backToList);
element("zoom-in").addEventListener("click", () => picture.zoom(1.5));
element("zoom-out").addEventListener("click", () => picture.zoom(1 / 1.5));
element("fit").addEventListener("click", () => picture.fit());
element("save").addEventListener("click", save);
addEventListener("keydown", key);

filter();
const asked = graphs.columns.number.indexOf(Number(location.hash.slice(1) || NaN));
if (asked >= 0) open(asked);
else open(list.order[0], "list"); // on narrow screens the list comes first
document.body.dataset.ready = "yes";
