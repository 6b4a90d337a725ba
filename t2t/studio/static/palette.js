"use strict";
// Looks of curves: colours that the colour-blind can distinguish (Okabe and Ito), then dashes.
(function (insight) {
  const COLOURS = 6; // --series-0 and so on of the style sheet
  const DASHES = ["solid", "dash", "dot", "dashdot"]; // Plotly's names
  const STROKES = { solid: null, dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };

  insight.property = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Colour and dash of the curve of a number.
  insight.seriesStyle = (index) => ({
    colour: insight.property(`--series-${index % COLOURS}`),
    dash: DASHES[Math.floor(index / COLOURS) % DASHES.length],
  });

  // A piece of such a curve, to stand beside a name.
  insight.swatch = function (index) {
    const { dash } = insight.seriesStyle(index);
    const line = insight.shape("line", {
      x1: 0, x2: 28, y1: 6, y2: 6, class: `series-${index % COLOURS}`, "stroke-dasharray": STROKES[dash],
    });
    return insight.shape("svg", { width: 28, height: 12, class: "swatch", "aria-hidden": "true" }, line);
  };

  // Calls what draws with colours when the page becomes dark or light.
  insight.onThemeChange = (draw) => window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})((window.insight = window.insight || {}));
