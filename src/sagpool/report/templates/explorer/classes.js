// What a model of classes says: probabilities, and whether the predicted class is right.
class Predictions {
  constructor(graphs) {
    this.graphs = graphs;
    this.names = graphs.about.classes;
    const { true: truth, predicted, probability } = graphs.columns;
    this.knowsTruth = truth.some((one) => one >= 0);
    this.confidence = Float32Array.from(predicted, (one, i) => probability[i * this.names.length + one]);
    this.orders = {
      "most confident first": () => descending(this.confidence),
      "least confident first": () => ascending(this.confidence),
    };
    for (const id of ["true", "predicted"]) {
      element(id).replaceChildren(new Option("all", ""), ...this.names.map((name, i) => new Option(short(name, 60), i)));
    }
  }

  /** Whether a graph fulfils what the fields ask for. */
  filter() {
    const { true: truth, predicted } = this.graphs.columns;
    const [ofClass, ofPrediction] = ["true", "predicted"].map((id) => fieldNumber(id, null));
    const verdict = element("verdict").value;
    const least = fieldNumber("least-confidence", 0) / 100 - 5e-7;
    const most = fieldNumber("most-confidence", 100) / 100 + 5e-7;
    return (i) =>
      (ofClass === null || truth[i] === ofClass) &&
      (ofPrediction === null || predicted[i] === ofPrediction) &&
      (!verdict || this.isRight(i) === (verdict === "right")) &&
      this.confidence[i] >= least && this.confidence[i] <= most;
  }

  /** True or false; undefined if the class is unknown. */
  isRight(i) {
    const { true: truth, predicted } = this.graphs.columns;
    return truth[i] < 0 ? undefined : truth[i] === predicted[i];
  }

  /** How much lower the probability of the predicted class is, given only the kept nodes. */
  change(i) {
    return this.graphs.columns.net_probability[i] - this.graphs.columns.part_probability[2 * i];
  }

  row(i) {
    const { true: truth, predicted } = this.graphs.columns;
    const wrong = this.isRight(i) === false;
    const expected = wrong ? `${short(this.names[truth[i]], 40)} → ` : "";
    return {
      wrong, told: expected + short(this.names[predicted[i]], 40), number: percent(this.confidence[i]), bar: this.confidence[i],
    };
  }

  /** The prediction for a graph, beside its class. */
  told(i) {
    const { true: truth, predicted } = this.graphs.columns;
    const right = this.isRight(i);
    const what = this.graphs.about.target ?? "class";
    return [
      ...(right === undefined ? ["predicted "] : [`${what} `, text("b", this.names[truth[i]]), ", predicted "]),
      text("b", this.names[predicted[i]]), ` with ${percent(this.confidence[i])} `,
      ...(right === undefined ? [] : [verdictMark(right, right ? "right" : "wrong")]),
    ];
  }

  /** The most probable classes. */
  outputs(i) {
    const count = this.names.length;
    const of = this.graphs.columns.probability.subarray(i * count, (i + 1) * count);
    const order = [...of.keys()].sort((a, b) => of[b] - of[a]);
    return order.map((one) => ({ name: this.names[one], value: percent(of[one]), bar: of[one] }));
  }

  /** What the net predicts given only the kept, and only the dropped nodes. */
  partSentences(graph, by) {
    const { predicted, net_predicted: net, part_predicted: given, part_probability: probability } = this.graphs.columns;
    const i = graph.index;
    const word = wordFor(graph);
    const name = short(this.names[predicted[i]], 60);
    const whole = percent(this.graphs.columns.net_probability[i]);
    if (net[i] !== predicted[i]) {
      // The net that pools was outvoted, so its parts cannot give the prediction of the model.
      const [kept, dropped] = [0, 1].map((part) => percent(probability[2 * i + part]));
      return [
        `Given the whole graph, the prediction${by} is “${short(this.names[net[i]], 60)}”, so the kept ${word}s do not explain “${name}”, which has ${whole}.`,
        `Given only the kept ${word}s it has ${kept}, given only the others ${dropped}.`,
      ];
    }
    const same = [0, 1].map((part) => given[2 * i + part] === predicted[i]);
    const about = (which, part) => {
      const other = short(this.names[given[2 * i + part]], 60);
      const p = percent(probability[2 * i + part]);
      return same[part]
        ? `Given only ${which}, the prediction stays “${name}”, with ${p}.`
        : `Given only ${which}, the prediction changes to “${other}”; “${name}” has ${p}.`;
    };
    const verdict = {
      "true,true": "Each part alone gives this prediction.",
      "true,false": `The kept ${word}s alone give this prediction, the others do not.`,
      "false,true": `The dropped ${word}s alone give this prediction, the kept ones do not.`,
      "false,false": "Neither part alone gives this prediction.",
    };
    return [`Given the whole graph, “${name}” has ${whole}${by}.`, ...partNames(graph).map(about), verdict[same]];
  }
}
