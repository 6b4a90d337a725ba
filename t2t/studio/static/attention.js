"use strict";
// Attention as in figures 3 to 5 of "Attention Is All You Need": what looks on the left, what is looked at on the right.
// Beside it, attention rollout: how much of what was read is in a position of the layer, the layers below included.
(function (insight) {
  const { element, shown } = insight;
  const LONGEST_LINES = 40; // pieces of a side; above it a heat map is clearer
  const FAINTEST = 0.03; // weights below it are not drawn as lines
  const VIEWS = ["Lines", "Heat map", "Table", "All heads"];
  const ALL_HEADS = 3;
  const BESIDE = ["nothing", "attention rollout"];

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
    const rollouts = maps.map((map) =>
      map.rollout ? new Looked({ ...map, name: `${map.name}, rollout`, heads: 1, weights: map.rollout }) : null,
    );
    const state = { kind: 0, layer: 0, heads: [], view: 0, beside: 0, focus: null, pinned: null };
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
      const besides = (index) => {
        state.beside = index;
        draw();
      };
      const controls = [
        insight.choice("Attention", kinds.map((kind) => kind.name), state.kind, chooseKind),
        insight.choice("Layer", map.layers, state.layer, (i) => {
          state.layer = i;
          draw();
        }),
        insight.choice("Show", VIEWS, state.view, (i) => {
          state.view = i;
          draw();
        }),
        rollouts[state.kind] && insight.choice("Beside it", BESIDE, state.beside, besides),
        element("span", {}, "Heads "),
        headButtons,
      ];
      tools.replaceChildren(...controls.filter(Boolean));
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
      status.textContent = `${describe(map, state)}; heads ${heads}.`;
    }

    // What a piece looks at, or what looks at it, the largest weights.
    function describe(map, { layer, heads, focus }, verbs = ["looks at", "is looked at by"]) {
      const isQuery = focus.side === "query";
      const piece = (isQuery ? map.queries : map.keys)[focus.index];
      const best = map.ranked(layer, heads, focus).slice(0, 5);
      const said = best.map((one) => `${shown(one.piece)} ${one.weight.toFixed(3)}`).join(", ");
      return `${shown(piece)} (${focus.index + 1}) ${verbs[isQuery ? 0 : 1]} ${said}`;
    }

    // One head of a layer, large.
    function open(layer, head) {
      Object.assign(state, { layer, heads: [head], view: 1 });
      drawTools();
      draw();
      tools.querySelector("select").focus();
    }

    function draw() {
      const map = kinds[state.kind];
      const rollout = state.beside ? rollouts[state.kind] : null;
      if (state.view === ALL_HEADS) picture.replaceChildren(insight.allHeads(map, open));
      else {
        const drawing = [insight.lines, insight.heatMap, insight.weightTable][state.view];
        const own = drawing(map, state, follow, FAINTEST);
        picture.replaceChildren(...(rollout ? [titled("Attention", own), rolledOut(rollout, drawing)] : [own]));
      }
      picture.classList.toggle("panels-side-by-side", Boolean(rollout));
      say();
    }

    const titled = (title, ...parts) => element("div", { class: "panel" }, element("h3", {}, title), parts);

    // The rollout up to the layer, drawn in the same way; it has no heads, and what is followed in it is said beside it.
    function rolledOut(rollout, drawing) {
      const own = { ...state, heads: [0], focus: null };
      const said = element("p", { class: "status", role: "status" });
      const followed = (focus) => {
        own.focus = focus;
        said.textContent = focus ? describe(rollout, own, ["is made of", "is in"]) : "";
      };
      return titled("Rollout up to this layer", said, drawing(rollout, own, followed, FAINTEST));
    }

    chooseKind(0);
    return element("section", { class: "attention", "aria-label": "What looks at what" }, tools, status, picture);
  };
})((window.insight = window.insight || {}));
