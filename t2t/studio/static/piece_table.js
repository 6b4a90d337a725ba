"use strict";
// The pieces of a vocabulary by how often they occur.
(function (insight) {
  const { element, shown, count } = insight;
  const A_PAGE = 25;
  const ORDERS = ["most frequent", "least frequent", "id"];
  const percent = (part, whole) => `${(100 * (whole ? part / whole : 0)).toFixed(2)} %`;

  function summary(one, sampled) {
    const amount = `${count(one.examples)} examples${sampled ? ", evenly spread" : ""}`;
    if (one.kind === "label") return `${count(one.size)} classes, counted in ${amount}; ${count(one.never)} never occur, ${count(one.rare)} less than ${one.rare_below} times.`;
    const unknown = one.unknown === null ? "none can be unknown" : `${count(one.unknown)} are unknown (${percent(one.unknown, one.total)})`;
    return (
      `${one.kind}, ${count(one.size)} ids. Of ${count(one.total)} pieces in ${amount}, ${unknown}; ` +
      `${count(one.never)} ids never occur, ${count(one.rare)} less than ${one.rare_below} times.`
    );
  }

  function table(found, label) {
    const most = Math.max(...found.pieces.map((one) => one.share), 1e-12);
    const rows = found.pieces.map((one) => {
      const bar = element("span", { class: "bar-of-value", "aria-hidden": "true" });
      bar.style.width = `${((100 * one.share) / most).toFixed(2)}%`;
      const numbers = [one.id, count(one.count), percent(one.share, 1)].map((text) => element("td", {}, text));
      return element("tr", {}, element("th", { scope: "row", dir: "auto" }, shown(one.piece)), numbers, element("td", { class: "bars" }, bar));
    });
    const head = ["Piece", "Id", "Count", "Share"].map((text) => element("th", { scope: "col" }, text));
    const body = [element("thead", {}, element("tr", {}, head, element("td", {}))), element("tbody", {}, rows)];
    return element("table", { class: "pieces" }, element("caption", { class: "hidden" }, label), body);
  }

  // asked: {run, problem, split}; one: a vocabulary as the server gives it; place: its number.
  insight.pieceTable = function (asked, one, place, isSampled) {
    const name = `${one.kind === "label" ? "Classes" : "Vocabulary"} of ${one.features.join(" and ")}`;
    const state = { order: 0, text: "", start: 0 };
    const rows = element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": name });
    const said = element("p", { class: "status", role: "status" });
    let turn = 0;

    async function look(changes) {
      Object.assign(state, changes);
      const own = ++turn;
      const query = new URLSearchParams({ ...asked, vocabulary: place, order: ORDERS[state.order], text: state.text, start: state.start, count: A_PAGE });
      try {
        const found = await insight.ask(`/insight/data_pieces?${query}`);
        if (own !== turn) return;
        rows.replaceChildren(table(found, name));
        const end = found.start + found.pieces.length;
        said.textContent = found.total ? `Pieces ${count(found.start + 1)} to ${count(end)} of ${count(found.total)}.` : "No piece contains this.";
        [before.disabled, after.disabled] = [!state.start, end >= found.total];
      } catch (error) {
        if (own === turn) said.replaceChildren(insight.complaint(error));
      }
    }

    const named = (text) => [text, element("span", { class: "hidden" }, ` of ${one.features.join(" and ")}`)];
    const before = element("button", { type: "button", onclick: () => look({ start: Math.max(0, state.start - A_PAGE) }) }, named("Previous pieces"));
    const after = element("button", { type: "button", onclick: () => look({ start: state.start + A_PAGE }) }, named("Next pieces"));
    const order = insight.choice(named("Order"), ORDERS, 0, (index) => look({ order: index, start: 0 }));
    const box = insight.search(named("Pieces with"), "", insight.settled((text) => look({ text, start: 0 })));
    look({});
    return element("section", { class: "vocabulary" }, element("h3", {}, name), element("p", { class: "note" }, summary(one, isSampled)), element("div", { class: "tools" }, order, box, before, after), said, rows);
  };
})((window.insight = window.insight || {}));
