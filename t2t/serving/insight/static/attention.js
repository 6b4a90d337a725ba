"use strict";
// Attention as in figures 3 to 5 of "Attention Is All You Need": what looks on the left, what is looked at on the right.
(function (insight) {
  const { element, shown } = insight;
  const LONGEST_LINES = 40; // pieces of a side; above it a heat map is clearer
  const FAINTEST = 0.03; // weights below it are not drawn as lines
  const VIEWS = ["Lines", "Heat map", "Table"];

  // The weights of one kind of attention, and what of them is chosen.
  class Looked {
    constructor(map) {
      Object.assign(this, map, { numbers: insight.fractions(map.weights) });
    }
    at(layer, head, query, key) {
      return this.numbers[((layer * this.heads + head) * this.queries.length + query) * this.keys.length + key];
    }
    mean(layer, heads, query, key) {
      let sum = 0;
      for (const head of heads) sum += this.at(layer, head, query, key);
      return heads.length ? sum / heads.length : 0;
    }
    // The pieces of the other side by weight, the largest first.
    ranked(layer, heads, focus) {
      const others = focus.side === "query" ? this.keys : this.queries;
      const weight = (i) =>
        focus.side === "query" ? this.mean(layer, heads, focus.index, i) : this.mean(layer, heads, i, focus.index);
      return others.map((piece, i) => ({ piece, weight: weight(i) })).sort((a, b) => b.weight - a.weight);
    }
  }

  insight.attention = function (maps) {
    const kinds = maps.map((map) => new Looked(map));
    const state = { kind: 0, layer: 0, heads: [], view: 0, focus: null, pinned: null };
    const tools = element("div", { class: "tools" });
    const picture = element("div", { class: "picture" });
    const status = element("p", { class: "status", role: "status", "aria-live": "polite" });

    function chooseKind(index) {
      const map = kinds[index];
      state.kind = index;
      state.layer = Math.min(state.layer, map.layers.length - 1);
      state.heads = [...Array(map.heads).keys()];
      state.view = Math.max(map.queries.length, map.keys.length) > LONGEST_LINES ? 1 : 0;
      state.focus = state.pinned = null;
      drawTools();
      draw();
    }

    // Alone, or beside those that are on where `beside`; a head that is alone already gives way to all.
    function isolate(head, beside) {
      const on = new Set(state.heads);
      if (beside) on.has(head) ? on.delete(head) : on.add(head);
      const isAlone = on.size === 1 && on.has(head);
      const all = [...Array(kinds[state.kind].heads).keys()];
      state.heads = beside ? all.filter((h) => on.has(h)) : isAlone ? all : [head];
      drawHeads();
      draw();
    }

    const headButtons = element("div", { role: "group", "aria-label": "Heads", class: "heads" });
    function drawHeads() {
      const focused = [...headButtons.children].indexOf(document.activeElement);
      const count = kinds[state.kind].heads;
      headButtons.replaceChildren(
        ...[...Array(count).keys()].map((head) => {
          const button = element(
            "button",
            {
              type: "button",
              class: "head",
              "data-head": head,
              "aria-pressed": String(state.heads.includes(head)),
              "aria-label": `Head ${head + 1}`,
              title: "Click: this head alone, again: all. Shift and click: beside the others.",
              onclick: (event) => isolate(head, event.shiftKey),
            },
            String(head + 1),
          );
          button.style.setProperty("--head", insight.colour(head, count));
          return button;
        }),
      );
      if (focused >= 0) headButtons.children[focused].focus();
    }

    function drawTools() {
      const map = kinds[state.kind];
      tools.replaceChildren(
        insight.choice("Attention", kinds.map((kind) => kind.name), state.kind, chooseKind),
        insight.choice("Layer", map.layers, state.layer, (i) => {
          state.layer = i;
          draw();
        }),
        insight.choice("Show", VIEWS, state.view, (i) => {
          state.view = i;
          draw();
        }),
        element("span", {}, "Heads "),
        headButtons,
      );
      drawHeads();
    }

    function follow(focus, pin) {
      if (pin) state.pinned = focus;
      state.focus = focus || state.pinned;
      say();
    }

    function say() {
      const map = kinds[state.kind];
      const focus = state.focus;
      const heads = state.heads.map((h) => h + 1).join(", ") || "none";
      if (!focus) {
        status.textContent = `${map.name}, ${map.layers[state.layer]}, heads ${heads}.`;
        return;
      }
      const isQuery = focus.side === "query";
      const piece = (isQuery ? map.queries : map.keys)[focus.index];
      const best = map.ranked(state.layer, state.heads, focus).slice(0, 5);
      const said = best.map((one) => `${shown(one.piece)} ${one.weight.toFixed(3)}`).join(", ");
      status.textContent = `${shown(piece)} (${focus.index + 1}) ${isQuery ? "looks at" : "is looked at by"} ${said}; heads ${heads}.`;
    }

    function draw() {
      const map = kinds[state.kind];
      const drawing = [insight.lines, insight.heatMap, insight.weightTable][state.view];
      picture.replaceChildren(drawing(map, state, follow, FAINTEST));
      say();
    }

    chooseKind(0);
    return element("section", { class: "attention", "aria-label": "What looks at what" }, tools, status, picture);
  };
})((window.insight = window.insight || {}));
