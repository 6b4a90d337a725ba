"use strict";
// How long the examples of a split are: a chart with a bar for each range of lengths.
(function (insight) {
  const { element, count, number } = insight;

  insight.Histogram = class extends insight.Chart {
    constructor(name) {
      super(name, () => {});
    }

    // lengths: as the server gives them; index: of the colour.
    show(lengths, index) {
      Object.assign(this, { lengths, index });
      this.update();
    }

    // The lengths of a bar, as text.
    range(place) {
      const { start, width, unit } = this.lengths;
      const from = start + place * width;
      if (unit === "seconds") return `${number(from)} to ${number(from + width)}`;
      return width === 1 ? String(from) : `${from} to ${from + width - 1}`;
    }

    summary() {
      const { mean, median, p99, longest, unit } = this.lengths;
      return `mean ${number(mean)}, median ${number(median)}, 99 % up to ${number(p99)}, longest ${number(longest)} ${unit.split(",")[0]}`;
    }

    label() {
      return `${this.name}: ${this.summary()}`;
    }

    table() {
      const head = [this.lengths.unit, "Examples"].map((text) => element("th", { scope: "col" }, text));
      const rows = this.lengths.counts.map((many, place) =>
        element("tr", {}, element("th", { scope: "row" }, this.range(place)), element("td", {}, count(many))),
      );
      const caption = element("caption", {}, this.summary());
      return element("table", {}, caption, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
    }

    traces() {
      const { start, width, counts } = this.lengths;
      const middle = this.lengths.unit === "seconds" ? width / 2 : (width - 1) / 2;
      return [{
        type: "bar", x: counts.map((_, place) => start + place * width + middle), y: counts, width, name: "",
        marker: { color: insight.seriesStyle(this.index).colour }, text: counts.map((_, place) => this.range(place)), textposition: "none",
        hovertemplate: "%{text}: %{y:,} examples<extra></extra>",
      }];
    }

    layout() {
      const xaxis = { title: { text: this.lengths.unit, standoff: 8 }, fixedrange: true };
      return { ...this.frame(xaxis, { title: { text: "examples", standoff: 8 }, fixedrange: true }), bargap: 0, dragmode: false };
    }
  };
})((window.insight = window.insight || {}));
