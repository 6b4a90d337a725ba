"use strict";
// Mean weights of the chosen heads as shades: for sentences too long for lines; and as a table of numbers.
(function (insight) {
  const { element, shown } = insight;
  const WIDEST = 900;
  const LABELS = 130; // room for pieces beside and above the cells
  const SMALLEST_LABELLED = 9;

  // The shade of a weight: the larger the darker.
  insight.shade = (weight) => `hsl(215 80% ${(97 - 72 * Math.sqrt(weight)).toFixed(1)}%)`;

  insight.heatMap = function (map, state, follow) {
    const [rows, columns] = [map.queries.length, map.keys.length];
    const cell = Math.max(3, Math.min(20, Math.floor(WIDEST / Math.max(rows, columns))));
    const room = cell >= SMALLEST_LABELLED ? LABELS : 0;
    const canvas = element("canvas", {
      width: room + cell * columns, height: room + cell * rows, tabindex: 0, role: "img", class: "heat",
      "aria-label": `${map.name}: rows look at columns; arrow keys move from cell to cell, their numbers are read out`,
    });
    const place = { query: 0, key: 0 };
    const readout = element("p", { class: "readout", role: "status", "aria-live": "polite" });

    function draw() {
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, canvas.width, canvas.height);
      for (let query = 0; query < rows; query++) {
        for (let key = 0; key < columns; key++) {
          const weight = map.mean(state.layer, state.heads, query, key);
          context.fillStyle = insight.shade(weight);
          context.fillRect(room + cell * key, room + cell * query, cell, cell);
        }
      }
      if (room) label(context);
      context.strokeStyle = "#d33";
      context.lineWidth = 1.5;
      context.strokeRect(room + cell * place.key, room, cell, cell * rows);
      context.strokeRect(room, room + cell * place.query, cell * columns, cell);
    }

    function label(context) {
      context.fillStyle = getComputedStyle(canvas).color;
      context.font = `${Math.min(13, cell)}px sans-serif`;
      context.textBaseline = "middle";
      context.textAlign = "right";
      map.queries.forEach((piece, i) => context.fillText(shown(piece), room - 4, room + cell * (i + 0.5), room - 6));
      context.textAlign = "left";
      map.keys.forEach((piece, i) => {
        context.save();
        context.translate(room + cell * (i + 0.5), room - 4);
        context.rotate(-Math.PI / 2);
        context.fillText(shown(piece), 0, 0, room - 6);
        context.restore();
      });
    }

    function go(query, key) {
      place.query = Math.max(0, Math.min(rows - 1, query));
      place.key = Math.max(0, Math.min(columns - 1, key));
      const weight = map.mean(state.layer, state.heads, place.query, place.key).toFixed(3);
      const from = `${shown(map.queries[place.query])} (${place.query + 1})`;
      readout.textContent = `${from} looks at ${shown(map.keys[place.key])} (${place.key + 1}): ${weight}`;
      draw();
    }

    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      const at = (offset) => Math.floor((offset * scale - room) / cell);
      go(at(event.clientY - box.top), at(event.clientX - box.left));
    });
    canvas.addEventListener("click", () => follow({ side: "query", index: place.query }, true));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      go(place.query + step[0], place.key + step[1]);
    });
    requestAnimationFrame(draw); // its colour is known once it is on the page
    return element("div", { class: "scrolled" }, readout, canvas);
  };

  insight.weightTable = function (map, state) {
    const head = (text, scope) => element("th", { scope }, shown(text));
    const cells = (query) =>
      map.keys.map((_, key) => element("td", {}, map.mean(state.layer, state.heads, query, key).toFixed(2)));
    return element(
      "div",
      { class: "scrolled", tabindex: 0, role: "region", "aria-label": "Table of weights" },
      element(
        "table",
        { class: "weights" },
        element("caption", {}, `${map.name}, ${map.layers[state.layer]}: mean weights of the chosen heads; rows look at columns`),
        element("thead", {}, element("tr", {}, element("td", {}), map.keys.map((piece) => head(piece, "col")))),
        element("tbody", {}, map.queries.map((piece, query) => element("tr", {}, head(piece, "row"), cells(query)))),
      ),
    );
  };
})((window.insight = window.insight || {}));
