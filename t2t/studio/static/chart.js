"use strict";
// One chart: a figure of several runs, with axes, drawn by Plotly when it comes into sight.
(function (insight) {
  const { element, number, count } = insight;
  const HEIGHT = 300;
  const MOST_IN_ONE_BOX = 12; // runs whose values one box shows at the pointer
  const UNITS = {
    loss: "nats per token", perplexity: "perplexity", learning_rate: "learning rate", grad_norm: "norm of the gradient",
    tokens_per_second: "target tokens per second", tokens_per_update: "target tokens per update", padding: "fraction",
    bleu: "BLEU, 0 to 100", chrf: "chrF, 0 to 100", accuracy: "fraction", accuracy_per_sequence: "fraction",
    bracket_f1: "F1, 0 to 100", bracket_f1_gold_tags: "F1, 0 to 100",
  };
  const TITLES = { updates: "updates", hours: "hours since the first report" };

  const unit = (name) => UNITS[name.split("/").pop()] || "";
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;"); // Plotly reads some markup

  insight.Chart = class {
    // zoomed([from, to] or null): the x axis was moved.
    constructor(name, zoomed) {
      this.name = name;
      this.zoomed = zoomed;
      this.isSeen = false;
      this.isDrawn = false;
      this.plot = element("div", { class: "plot", role: "img", "aria-label": name });
      this.values = element("div", {});
      this.node = element(
        "figure",
        { class: "chart", "data-figure": name },
        element("figcaption", {}, element("h2", {}, name)),
        this.plot,
        element("details", {}, element("summary", {}, "Values"), element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": `Values of ${name}` }, this.values)),
      );
      this.watcher = new IntersectionObserver((entries) => this.see(entries.at(-1).isIntersecting), { rootMargin: "200px" });
      this.watcher.observe(this.node);
    }

    see(isSeen) {
      this.isSeen = isSeen;
      if (isSeen && this.pending) this.draw();
    }

    // curves: [{run, index, x, y, points, last, last_update, note}]; view: {by, log, range}.
    show(curves, view) {
      this.curves = curves;
      this.view = view;
      this.update();
    }

    // Draws again, now or when the chart is seen.
    update() {
      this.pending = true;
      this.plot.setAttribute("aria-label", this.label());
      this.values.replaceChildren(this.table());
      if (this.isSeen) this.draw();
    }

    label() {
      const ends = this.curves.map((one) => `${one.run} ${number(one.last)}`).slice(0, MOST_IN_ONE_BOX);
      return `${this.name} by ${TITLES[this.view.by]}; last: ${ends.join(", ")}`;
    }

    table() {
      const head = ["Run", "Last", "at update", "Points", "Note"].map((text) => element("th", { scope: "col" }, text));
      const rows = this.curves.map((one) =>
        element("tr", {}, element("th", { scope: "row" }, one.run), [number(one.last), count(one.last_update), count(one.points), one.note].map((text) => element("td", {}, text))),
      );
      return element("table", {}, element("caption", { class: "hidden" }, `Last values of ${this.name}`), element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
    }

    draw() {
      this.pending = false;
      Plotly.react(this.plot, this.traces(), this.layout(), { displayModeBar: false, responsive: true, doubleClick: false });
      if (this.isDrawn) return;
      this.isDrawn = true;
      this.plot.on("plotly_relayout", (change) => this.moved(change));
      this.plot.on("plotly_doubleclick", () => this.zoomed(null));
    }

    moved(change) {
      const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (from !== undefined && to !== undefined) this.zoomed([from, to]);
    }

    traces() {
      return this.curves.map((one) => {
        const { colour, dash } = insight.seriesStyle(one.index);
        return {
          type: "scatter", mode: one.points < 30 ? "lines+markers" : "lines", name: plain(one.run), x: one.x, y: one.y,
          line: { color: colour, dash, width: 1.8 }, marker: { size: 5 }, hoverlabel: { namelength: 40 },
        };
      });
    }

    layout() {
      const range = this.view.range;
      return {
        ...this.frame(
          { title: { text: TITLES[this.view.by], standoff: 8 }, ...(range ? { range, autorange: false } : { autorange: true }) },
          { title: { text: unit(this.name), standoff: 8 }, type: this.view.log ? "log" : "linear", fixedrange: true },
        ),
        hovermode: this.curves.length <= MOST_IN_ONE_BOX ? "x unified" : "closest",
      };
    }

    // What every chart looks like, with its axes.
    frame(xaxis, yaxis) {
      const [ink, soft, paper] = ["--ink", "--line", "--paper"].map(insight.property);
      const axis = { gridcolor: soft, zerolinecolor: soft, linecolor: soft, automargin: true, title: { standoff: 8 } };
      return {
        height: HEIGHT, autosize: true, showlegend: false, dragmode: "zoom", uirevision: "kept",
        margin: { l: 56, r: 12, t: 8, b: 44 }, paper_bgcolor: paper, plot_bgcolor: paper,
        font: { family: "system-ui, sans-serif", size: 12, color: ink },
        hoverlabel: { bgcolor: paper, font: { color: ink } },
        xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis },
      };
    }
  };
})((window.insight = window.insight || {}));
