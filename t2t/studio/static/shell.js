"use strict";
// What every page of the service does: it reads its facts, keeps its links, and is up to date while it is looked at.
(function (insight) {
  // Calls show(content, facts) when the page is there.
  insight.start = function (show) {
    document.addEventListener("DOMContentLoaded", () => {
      const facts = JSON.parse(document.getElementById("facts").textContent);
      insight.address.updateLinks();
      show(document.getElementById("content"), facts);
    });
  };

  // Calls look() now and again and again, while the page is seen and the time before is over; returns what looks at once.
  insight.keepLooking = function (look, seconds) {
    let busy = false;
    async function lookOnce() {
      if (busy || document.hidden) return;
      busy = true;
      try {
        await look();
      } finally {
        busy = false;
      }
    }
    setInterval(lookOnce, 1000 * seconds);
    document.addEventListener("visibilitychange", lookOnce);
    lookOnce();
    return lookOnce;
  };

  // Calls `act` when nothing has asked for it for a moment.
  insight.settled = function (act, milliseconds = 200) {
    let timer = 0;
    return (...values) => {
      clearTimeout(timer);
      timer = setTimeout(() => act(...values), milliseconds);
    };
  };

  // Asks for the runs that are not damaged. Returns them, the names of those to show, the ticked ones or the first `most`,
  // and what is to be said of ticked ones that are left out, which are damaged or gone.
  insight.askForRuns = async function (most) {
    const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.state !== "damaged");
    const names = runs.map((run) => run.run);
    const ticked = [...new Set(insight.address.all("run"))];
    const missing = ticked.filter((name) => !names.includes(name));
    const shown = ticked.length ? ticked.filter((name) => names.includes(name)) : names.slice(0, most);
    return { runs, shown, leftOut: missing.length ? `Left out, as they are damaged or gone: ${missing.join(", ")}.` : "" };
  };

  // Replaces the choices in a place; the one that has the focus keeps it.
  insight.replaceTools = function (place, ...nodes) {
    const choices = () => [...place.querySelectorAll("select")];
    const focused = choices().indexOf(document.activeElement);
    place.replaceChildren(...nodes);
    if (focused >= 0 && choices()[focused]) choices()[focused].focus();
  };

  // A labelled box to tick.
  insight.checkbox = function (label, checked, changed) {
    const id = insight.fresh("check");
    const box = insight.element("input", { type: "checkbox", id, onchange: () => changed(box.checked) });
    box.checked = checked;
    return insight.element("span", { class: "choice" }, box, " ", insight.element("label", { for: id }, label));
  };

  // A labelled line to type into.
  insight.search = function (label, value, changed) {
    const id = insight.fresh("search");
    const box = insight.element("input", { type: "search", id, value, oninput: () => changed(box.value) });
    return insight.element("span", { class: "choice" }, insight.element("label", { for: id }, label), " ", box);
  };

  insight.count = (number) => Math.round(number).toLocaleString("en");

  // A time in the two largest units, such as 1 h 5 min.
  insight.duration = function (seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    if (first < 0) return "0 s";
    const [name, size] = units[first];
    const whole = Math.floor(seconds / size);
    const [below, part] = units[first + 1] || ["", 1];
    const rest = Math.floor((seconds - whole * size) / part);
    return rest && below ? `${whole} ${name} ${rest} ${below}` : `${whole} ${name}`;
  };

  // A figure as short as it may be.
  insight.number = function (value) {
    const isOdd = Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-3);
    return isOdd ? value.toExponential(2) : String(+value.toPrecision(4));
  };
})((window.insight = window.insight || {}));
