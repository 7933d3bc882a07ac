// The page: the state, and what the reader's clicks and keys do to it.
const MOST_OUTPUTS = 8; // classes or targets that are listed
const element = (id) => document.getElementById(id);
const data = element("data");
const graphs = new Graphs(await unpack(data.textContent));
data.remove();
const predictions = new Predictions(graphs);
const orders = ordersOf(graphs, predictions);
const state = { graph: null, level: Math.min(1, graphs.levels), mask: 0 };

const list = new List(element("list"), element("rows"), fillRow, open);
const picture = new Picture(element("picture"), (node) => { element("node").textContent = nodeText(state.graph, node); });

function text(tag, content, className = "") {
  const made = document.createElement(tag);
  made.textContent = content;
  made.className = className;
  return made;
}

/** What is marked beside a graph that is unlike the training data. */
const unlikeMarks = (i, content) => (graphs.columns.unlike[i] ? [text("span", content, "verdict unlike")] : []);

const verdictMark = (good, content) => text("span", content, `verdict ${good ? "right" : "wrong"}`);

function fillRow(row, i) {
  const { wrong, told, number: predicted, bar } = predictions.row(i);
  const head = text("span", "", "head");
  head.append(
    text("span", short(graphs.names[i], 120), "name"),
    ...unlikeMarks(i, "unlike training data"),
    ...(wrong ? [verdictMark(false, "wrong")] : []),
  );
  row.append(
    head,
    text("span", told, "class"),
    text("span", `${plural(graphs.columns.size[i], graphs.columns.molecule[i] ? "atom" : "node")}`, "size"),
    text("span", predicted, "confidence"),
  );
  row.style.setProperty("--bar", bar);
}

/** What a field has, if it is not empty. */
const fieldNumber = (id, otherwise) => (element(id).value === "" ? otherwise : Number(element(id).value));

function wish() {
  return {
    text: element("search").value.trim(), predicted: predictions.filter(),
    leastSize: fieldNumber("least-size", 0), mostSize: fieldNumber("most-size", Infinity),
    unlike: fieldNumber("unlike", null),
    order: element("order").value,
  };
}

function filter() {
  const found = find(graphs, orders, wish());
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
  element("name").textContent = short(graphs.names[i], 300);
  element("told").replaceChildren(...predictions.told(i), " ", ...unlikeMarks(i, "unlike the training data"));
  showReasons(element("reasons"), state.graph, picture);
  element("parts").replaceChildren(...partSentences(graphs, predictions, graphs.get(i)).map((sentence) => text("p", sentence)));
  element("outputs").replaceChildren(...outputs(i));
  const word = wordFor(state.graph);
  element("node-head").textContent = word === "atom" ? "Atom" : "Node";
  showLevel(state.level);
  element("node").textContent = `Point at ${word === "atom" ? "an atom" : "a node"}, or focus the picture and use the arrow keys.`;
  history.replaceState(null, "", `#${graphs.columns.number[i]}`);
}

function outputs(i) {
  const all = predictions.outputs(i);
  const rows = all.slice(0, MOST_OUTPUTS).map(({ name, value, bar }) => {
    const row = document.createElement("li");
    row.append(text("span", short(name, 60), "class"), text("span", value, "value"));
    row.style.setProperty("--bar", bar);
    return row;
  });
  const more = all.length - MOST_OUTPUTS;
  return more > 0 ? [...rows, text("li", `and ${more} others`, "rest")] : rows;
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

element("order").replaceChildren(...Object.keys(orders).map((name) => new Option(name)));
element("level").max = graphs.levels;
element("mask-field").hidden = !graphs.masks;
element("mask").replaceChildren(new Option("all", 0), ...Array.from({ length: graphs.masks }, (_, i) => new Option(i + 1, i + 1)));
element("parts-section").hidden = graphs.levels === 0;
document.querySelectorAll(".of-truth").forEach((field) => { field.hidden = !predictions.knowsTruth; });
element("unlike-field").hidden = !graphs.columns.unlike.some(Boolean);
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
