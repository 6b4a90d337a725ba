"use strict";
// Examples of a split, page by page, or those that contain a text.
(function (insight) {
  const { element, shown, count, address } = insight;
  const A_PAGE = 10;
  const percent = (share) => `${(100 * share).toFixed(1)} %`;

  function pieces(feature) {
    const unknown = new Set(feature.unknown);
    const nodes = feature.pieces.map((piece, place) => {
      const isUnknown = unknown.has(place);
      const hint = isUnknown ? element("span", { class: "hidden" }, " (unknown)") : null;
      return element("span", { class: isUnknown ? "token unknown" : "token", title: isUnknown ? "unknown" : null }, shown(piece), hint);
    });
    const more = feature.more ? element("span", { class: "unit" }, ` and ${count(feature.more)} more`) : null;
    return element("div", { class: "tokens", dir: "auto" }, nodes.flatMap((node) => [node, " "]), more);
  }

  // How long a feature is, and what is added to it or cut off in its batch.
  function size(feature) {
    const parts = [];
    if (feature.seconds !== undefined) parts.push(`${feature.seconds.toFixed(2)} s`);
    else if (feature.kind === "tokens") parts.push(`${count(feature.length)} pieces`);
    else if (feature.length !== undefined) parts.push(`${count(feature.length)} ${feature.kind === "video" ? "frames" : "vectors"}`);
    else if (feature.shape.length) parts.push(feature.shape.join(" \u00d7 "));
    if (feature.padded) parts.push(`${count(feature.padded)} of padding`);
    if (feature.cut) parts.push(`the last ${count(feature.cut)} cut off`);
    return parts.join(", ");
  }

  function batchText(batch) {
    const widths = Object.entries(batch.widths).map(([name, width]) => `${name} ${count(width)} wide, ${percent(batch.padding[name])} padding`);
    return `In a batch of ${count(batch.rows)} rows${widths.length ? `: ${widths.join("; ")}` : ""}.`;
  }

  function example(one, asked) {
    const lines = one.features.map((feature) => {
      const isTokens = feature.kind === "tokens";
      const label = `${feature.name} of example ${one.number}`;
      return [
        element("dt", {}, feature.name, element("span", { class: "unit" }, ` ${size(feature)}`)),
        element(
          "dd",
          {},
          insight.media(feature.media, label),
          feature.text !== undefined && !(feature.media && isTokens) ? element("div", { class: "text-of-example", dir: "auto" }, feature.text) : null,
          isTokens && feature.pieces ? pieces(feature) : null,
        ),
      ];
    });
    const look = one.features.some((feature) => feature.name === "inputs" && ["image", "audio", "video"].includes(feature.kind))
      ? element("p", {}, element("a", { href: `/playground?${new URLSearchParams({ a: asked.run, split: asked.split, example: one.number })}` }, "What a model answers", element("span", { class: "hidden" }, ` to example ${one.number}`)))
      : null;
    return element(
      "li",
      { "data-example": one.number },
      element("p", { class: "change" }, element("strong", {}, `Example ${count(one.number)}`), one.batch ? ` ${batchText(one.batch)}` : null),
      element("dl", {}, lines),
      look,
    );
  }

  // The examples of a split; asked: {run, problem, split}.
  insight.exampleList = function (asked) {
    const list = element("ol", { class: "sentences" });
    const said = element("p", { class: "status", role: "status" });
    const note = element("p", { class: "note" });
    const starts = []; // where the pages before this one begin
    let start = Number(address.get("start", "0")) || 0;
    let following = null;
    let turn = 0;

    // Asks until a page is full, since a request looks through a part of a large split alone.
    async function look() {
      const own = ++turn;
      const text = address.get("text");
      address.set({ start: start ? String(start) : null });
      const found = [];
      let next = start;
      let answer = null;
      try {
        do {
          const query = new URLSearchParams({ ...asked, text, start: next, count: A_PAGE - found.length });
          answer = await insight.ask(`/insight/data_examples?${query}`);
          if (own !== turn) return;
          found.push(...answer.examples);
          next = answer.next;
          if (text) said.textContent = `${found.length} found, looked through ${count((next ?? answer.total) - start)} of ${count(answer.total)} \u2026`;
        } while (text && next !== null && found.length < A_PAGE);
      } catch (error) {
        if (own === turn) said.replaceChildren(insight.complaint(error));
        return;
      }
      following = next;
      list.replaceChildren(...found.map((one) => example(one, asked)));
      note.textContent = answer.no_batches ? `No batches are shown: ${answer.no_batches}.` : "";
      const last = found.length ? ` ${count(found[0].number)} to ${count(found.at(-1).number)}` : "";
      said.textContent = text && !found.length ? "No example contains this." : `Examples${last} of ${count(answer.total)}, counted from 0.`;
      [earlier.disabled, later.disabled] = [!start, following === null];
    }

    function go(to) {
      start = to;
      look();
    }

    const earlier = element("button", { type: "button", onclick: () => go(starts.pop() ?? Math.max(0, start - A_PAGE)) }, "Earlier examples");
    const later = element("button", { type: "button", onclick: () => (starts.push(start), go(following)) }, "Later examples");
    const searched = insight.settled((text) => {
      address.set({ text });
      starts.length = 0;
      go(0);
    }, 400);
    const box = insight.search("Search in texts", address.get("text"), searched);
    look();
    return element("section", { "aria-label": "Examples" }, element("h2", {}, "Examples"), element("div", { class: "tools" }, box, earlier, later), said, note, list);
  };
})((window.insight = window.insight || {}));
