// The runs behind a number of a table: shown on hover and focus, kept open by a click.
const runsData = JSON.parse(document.getElementById("runs-data").textContent);
// The namespace, without an address on the page.
const SVG = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
const panel = document.createElement("div");
panel.id = "runs";
panel.role = "dialog";
panel.hidden = true;
let pinned = null; // the button whose panel stays

function add(parent, tag, words = "", attributes = {}) {
  const space = tag === "svg" ? SVG : parent.namespaceURI;
  const made = document.createElementNS(space, tag);
  made.textContent = words;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

function showRuns(button, pin) {
  const about = runsData[button.closest("td").dataset.runs];
  panel.replaceChildren();
  panel.ariaLabel = `Runs of ${about.title}`;
  add(panel, "h4", about.title);
  const facts = add(panel, "dl");
  for (const [name, value] of about.facts) {
    add(facts, "dt", name);
    add(facts, "dd", value);
  }
  drawDots(about);
  if (pin && about.curve) drawCurve(about.curve);
  else if (about.curve) add(panel, "p", "Click for the learning curve.");
  if (pin) add(panel, "button", "×", { type: "button", class: "close", "aria-label": "Close" }).addEventListener("click", () => closeRuns(true));
  panel.hidden = false;
  place(button);
}

/** Below the number, or above it if there is no room. */
function place(button) {
  const box = button.getBoundingClientRect();
  const most = document.documentElement.clientWidth - panel.offsetWidth - 12;
  const height = panel.offsetHeight + 6;
  const above = box.bottom + height > innerHeight && box.top > height;
  panel.style.left = `${scrollX + Math.max(12, Math.min(box.left, most))}px`;
  panel.style.top = `${scrollY + (above ? box.top - height : box.bottom + 6)}px`;
}

function closeRuns(goBack) {
  panel.hidden = true;
  if (!pinned) return;
  pinned.ariaExpanded = "false";
  if (goBack) pinned.focus();
  pinned = null;
  panel.hidden = true; // the focus has shown it again
}

/** Means of seeds and folds on one axis. */
function drawDots({ seeds, folds }) {
  const rows = [["seeds", seeds], ["folds", folds]].filter(([, values]) => values.length > 1);
  if (!rows.length) return;
  const all = rows.flatMap(([, values]) => values);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const x = (value) => 44 + (240 * (value - low)) / (high - low || 1);
  const height = 20 * rows.length + 16;
  const svg = add(panel, "svg", "", { viewBox: `0 0 292 ${height}`, role: "img", "aria-label": "Mean accuracy of each seed and of each fold" });
  rows.forEach(([name, values], i) => {
    const y = 10 + 20 * i;
    add(svg, "text", name, { x: 0, y: y + 4 });
    add(svg, "line", "", { class: "axis", x1: 44, x2: 284, y1: y, y2: y });
    for (const value of values) add(svg, "circle", "", { class: "dot", cx: x(value), cy: y, r: 3.5 });
  });
  add(svg, "text", `${low} %`, { x: 44, y: height - 2 });
  add(svg, "text", `${high} %`, { x: 284, y: height - 2, "text-anchor": "end" });
}

/** Medians: validation solid with a band over the middle half, train loss dashed. */
function drawCurve({ epochs, train, validation, low, high, solid }) {
  const seen = [...train, ...validation, ...low, ...high].filter((value) => value !== null);
  if (!seen.length) return;
  const [least, most] = [Math.min(...seen), Math.max(...seen)];
  const x = (i) => 36 + (248 * (epochs[i] - 1)) / (epochs.at(-1) - 1 || 1);
  const y = (value) => 8 + (112 * (most - value)) / (most - least || 1);
  const points = (values) => values.flatMap((value, i) => (value === null ? [] : [`${x(i).toFixed(1)} ${y(value).toFixed(1)}`]));
  const svg = add(panel, "svg", "", { viewBox: "0 0 292 140", role: "img", "aria-label": `Medians over ${epochs.at(-1)} epochs` });
  add(svg, "line", "", { class: "axis", x1: 36, x2: 284, y1: 120, y2: 120 });
  const band = [...points(high), ...points(low).reverse()];
  if (band.length) add(svg, "path", "", { class: "band", d: `M${band.join("L")}Z` });
  for (const [name, values] of Object.entries({ train, validation })) {
    const line = points(values);
    if (line.length) add(svg, "path", "", { class: name, d: `M${line.join("L")}` });
  }
  const digits = (value) => value.toPrecision(3);
  add(svg, "text", digits(most), { x: 0, y: 12 });
  add(svg, "text", digits(least), { x: 0, y: 122 });
  add(svg, "text", "1", { x: 36, y: 134 });
  add(svg, "text", `epoch ${epochs.at(-1)}`, { x: 284, y: 134, "text-anchor": "end" });
  add(panel, "p", `Medians: ${solid} solid, with a band over the middle half; train loss dashed.`);
}

for (const span of document.querySelectorAll("td[data-runs] .ours")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "runs ours";
  button.ariaHasPopup = "dialog";
  button.ariaExpanded = "false";
  button.append(...span.childNodes);
  span.replaceWith(button);
  const preview = () => { if (!pinned) showRuns(button, false); };
  const leave = () => { if (!pinned) closeRuns(false); };
  button.addEventListener("mouseenter", preview);
  button.addEventListener("focus", preview);
  button.addEventListener("mouseleave", leave);
  button.addEventListener("blur", leave);
  button.addEventListener("click", () => {
    const again = pinned === button;
    closeRuns(false);
    if (again) return;
    pinned = button;
    button.ariaExpanded = "true";
    showRuns(button, true);
    panel.querySelector(".close").focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  });
}
document.body.append(panel);
addEventListener("keydown", (event) => { if (event.key === "Escape" && !panel.hidden) closeRuns(true); });
addEventListener("click", (event) => { if (pinned && !panel.contains(event.target) && !event.target.closest(".runs")) closeRuns(false); });
