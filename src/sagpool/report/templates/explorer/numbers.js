// What a regression says: numbers with intervals, and how far they are from the true ones.
const MOST_DECIMALS = 6; // smaller numbers, and larger ones than 10⁹, are written with an exponent

/** Text for numbers like these: all with as many decimals, four digits for their range. */
function formatFor(values) {
  const known = values.filter((one) => !isNaN(one));
  const [low, high] = [Math.min, Math.max].map((end) => known.reduce((a, b) => end(a, b)));
  const size = Math.max(Math.abs(low), Math.abs(high));
  const decimals = Math.max(0, 4 - Math.ceil(Math.log10(high - low || size || 1)));
  return (value) => {
    const plain = decimals <= MOST_DECIMALS && size < 1e9;
    const rounded = Number(value.toFixed(Math.min(decimals, MOST_DECIMALS))) || 0; // without −0
    const digits = plain ? rounded.toLocaleString("en", { minimumFractionDigits: decimals }) : value.toExponential(3);
    return digits.replaceAll("-", "−");
  };
}

class Predictions {
  constructor(graphs) {
    this.graphs = graphs;
    this.names = graphs.about.targets;
    this.place = this.names.indexOf(graphs.about.target);
    const value = this.column("value", this.place);
    const measured = this.column("measured", this.place);
    Object.assign(this, { value, measured });
    this.formats = this.names.map((_, place) => formatFor([...this.column("value", place), ...this.column("measured", place)]));
    this.format = this.formats[this.place];
    this.error = value.map((one, i) => Math.abs(one - measured[i])); // NaN where not measured
    this.knowsTruth = this.error.some((one) => !isNaN(one));
    [this.lowest, this.highest] = [Math.min, Math.max].map((end) => value.reduce((a, b) => end(a, b)));
    this.orders = {
      "highest prediction first": () => descending(value),
      "lowest prediction first": () => ascending(value),
      ...(this.knowsTruth && {
        "largest error first": () => descending(this.error.map((one) => (isNaN(one) ? -1 : one))),
        "smallest error first": () => ascending(this.error.map((one) => (isNaN(one) ? Infinity : one))),
      }),
    };
  }

  /** What a column has for one target: a number for each graph. */
  column(name, place) {
    const all = this.graphs.columns[name];
    return Float32Array.from({ length: this.graphs.count }, (_, i) => all[i * this.names.length + place]);
  }

  /** Whether a graph fulfils what the fields ask for. */
  filter() {
    const between = (id, values) => {
      const [least, most] = ["least", "most"].map((end) => fieldNumber(`${end}-${id}`, null));
      // What is typed is rounded as the columns are.
      return (i) => (least === null || values[i] >= Math.fround(least)) && (most === null || values[i] <= Math.fround(most));
    };
    const [ofValue, ofError] = [between("value", this.value), between("error", this.error)];
    return (i) => ofValue(i) && ofError(i);
  }

  /** How far the prediction given only the kept nodes is from that for the whole graph. */
  change(i) {
    return Math.abs(this.graphs.columns.part_value[2 * i] - this.graphs.columns.net_value[i]);
  }

  row(i) {
    const known = !isNaN(this.error[i]);
    return {
      wrong: false,
      told: known ? `error ${this.format(this.error[i])}` : "",
      number: this.format(this.value[i]),
      bar: (this.value[i] - this.lowest) / (this.highest - this.lowest || 1),
    };
  }

  /** The prediction for a graph, beside the true number. */
  told(i) {
    const place = i * this.names.length + this.place;
    const [low, high] = ["low", "high"].map((end) => this.graphs.columns[end][place]);
    const measured = this.measured[i];
    const between = isNaN(low) ? "" : ` (interval ${this.format(low)} to ${this.format(high)})`;
    const name = short(this.names[this.place], 60);
    const inside = low <= measured && measured <= high;
    return [
      ...(isNaN(measured) ? [`${name} predicted `] : [`${name} `, text("b", this.format(measured)), ", predicted "]),
      text("b", this.format(this.value[i])), between,
      ...(isNaN(measured) ? [] : [`, error ${this.format(this.error[i])} `]),
      ...(isNaN(measured) || isNaN(low) ? [] : [verdictMark(inside, inside ? "in the interval" : "outside the interval")]),
    ];
  }

  /** All targets, the explained one first. */
  outputs(i) {
    const { value, low, high, measured } = this.graphs.columns;
    const others = [...this.names.keys()].filter((one) => one !== this.place);
    return [this.place, ...others].map((one) => {
      const [at, format] = [i * this.names.length + one, this.formats[one]];
      const between = isNaN(low[at]) ? "" : ` (${format(low[at])} to ${format(high[at])})`;
      const known = isNaN(measured[at]) ? "" : `, true ${format(measured[at])}`;
      return { name: short(this.names[one], 40) + known, value: format(value[at]) + between, bar: 0 };
    });
  }

  /** What the net predicts given only the kept, and only the dropped nodes. */
  partSentences(graph, by) {
    const i = graph.index;
    const word = wordFor(graph);
    const whole = this.graphs.columns.net_value[i];
    const given = this.graphs.columns.part_value.subarray(2 * i, 2 * i + 2);
    const [kept, dropped] = given.map((value) => Math.abs(value - whole));
    const about = (which, part) => `Given only ${which}, it is ${this.format(given[part])} (${given[part] < whole ? "−" : "+"}${this.format(Math.abs(given[part] - whole))}).`;
    return [
      `Given the whole graph, the prediction${by} is ${this.format(whole)}.`,
      ...partNames(graph).map(about),
      kept < dropped
        ? `The kept ${word}s alone come closer to the prediction than the others.`
        : `The kept ${word}s alone come no closer to the prediction than the others.`,
    ];
  }
}
