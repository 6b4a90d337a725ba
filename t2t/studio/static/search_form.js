"use strict";
// How outputs are searched, and what they have to be: fields beside the text, kept in the address.
(function (insight) {
  const { element, address } = insight;
  const METHODS = ["beam", "greedy", "sample"];
  const OWN = "as the run says";
  // Name in a request, label, least, most and step of the value, and the method that reads it; empty for all.
  const NUMBERS = [
    ["beam_size", "Beam size", 1, 32, 1, "beam"],
    ["alpha", "Length penalty", 0, null, 0.1, "beam"],
    ["sampling_temperature", "Temperature", 0.1, null, 0.1, "sample"],
    ["sampling_top_k", "Top k", 0, null, 1, "sample"],
    ["sampling_top_p", "Top p", 0, 1, 0.05, "sample"],
    ["seed", "Seed", 0, null, 1, "sample"],
    ["extra_length", "Longest: the input and", 0, null, 1, ""],
    ["n_best", "How many", 1, 32, 1, ""],
  ];
  const LISTS = [["constraints", "Holds, a phrase a line"], ["avoid", "Lacks, a phrase a line"], ["choices", "Is one of, one a line"]];
  const LINES = [["begins", "Begins with"], ["regex", "Matches the regular expression"]];

  const linesOf = (area) => area.value.split("\n").filter((line) => line.trim());

  function labelled(label, field, extra = null) {
    field.id = insight.fresh("field");
    return element("span", { class: "choice" }, element("label", { for: field.id }, label), " ", field, extra);
  }

  insight.SearchForm = class {
    // changed(): something else is asked for.
    constructor(changed) {
      this.changed = changed;
      this.own = {}; // until a model is loaded
      this.numbers = new Map();
      this.lists = new Map();
      this.lines = new Map();
      const method = METHODS.indexOf(address.get("decode_method")) + 1;
      const choice = insight.choice("Search", [OWN, ...METHODS], method, () => {
        this.update();
        changed();
      });
      this.method = choice.querySelector("select");
      const numbers = NUMBERS.map(([name, label, min, max, step]) => {
        const field = element("input", { type: "number", min, max, step, value: address.get(name), onchange: changed });
        this.numbers.set(name, field);
        return labelled(label, field);
      });
      const lists = LISTS.map(([name, label]) => {
        const area = element("textarea", { rows: 2, dir: "auto", onchange: changed });
        area.value = address.all(name).join("\n");
        this.lists.set(name, area);
        return labelled(label, area);
      });
      const lines = LINES.map(([name, label]) => {
        const field = element("input", { type: "text", dir: "auto", value: address.get(name), onchange: changed });
        this.lines.set(name, field);
        return labelled(label, field);
      });
      this.node = element(
        "details",
        { class: "search-form" },
        element("summary", {}, "Search and constraints"),
        element("div", { class: "tools" }, choice, numbers),
        element("div", { class: "terms" }, lines, lists),
      );
      this.node.open = Object.values(this.parameters).some((value) => value !== null && value.length);
      this.update();
    }

    // Undefined for the run's own before that is known.
    get chosenMethod() {
      return this.method.selectedIndex ? METHODS[this.method.selectedIndex - 1] : this.own.decode_method;
    }

    // Whether a model of a run with this search of its own is asked for a beam, which a tree shows.
    isBeam(own) {
      const method = this.method.selectedIndex ? this.chosenMethod : own.decode_method;
      return method === "beam" && this.numbers.get("beam_size").value !== "1";
    }

    // The run's own values stand in the fields that say nothing.
    set ownSearch(search) {
      this.own = { decode_method: METHODS[0], ...search };
      this.update();
    }

    // Disables fields that the method does not read; none while it is unknown, so that the address keeps their values.
    update() {
      const chosen = this.chosenMethod;
      for (const [name, , , , , method] of NUMBERS) {
        const field = this.numbers.get(name);
        field.disabled = Boolean(method && chosen) && method !== chosen;
        field.placeholder = this.own[name] ?? (name === "n_best" ? 1 : "");
      }
    }

    get parameters() {
      const number = ([name, field]) => [name, field.disabled || field.value === "" ? null : field.value];
      return {
        decode_method: this.method.selectedIndex ? this.chosenMethod : null,
        ...Object.fromEntries([...this.numbers].map(number)),
        ...Object.fromEntries([...this.lists].map(([name, area]) => [name, linesOf(area)])),
        ...Object.fromEntries([...this.lines].map(([name, field]) => [name, field.value])),
      };
    }

    // Keeps it in the address.
    keep() {
      address.set(this.parameters);
    }

    // What of a request says how to search, and what the outputs have to be.
    get request() {
      const { decode_method, n_best, begins, regex, constraints, avoid, choices, ...numbers } = this.parameters;
      const search = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null).map(([name, value]) => [name, Number(value)]));
      const lists = Object.entries({ constraints, avoid, choices }).filter(([, phrases]) => phrases.length);
      return {
        search: { ...search, ...(decode_method ? { decode_method } : {}) },
        terms: { ...Object.fromEntries(lists), ...(regex ? { regex } : {}) },
        ...(begins ? { begins } : {}),
        ...(n_best ? { n_best: Number(n_best) } : {}),
      };
    }

    // What is asked for, in words; empty where it is the run's own search.
    get said() {
      const given = Object.entries(this.parameters).filter(([, value]) => value !== null && value.length);
      return given.map(([name, value]) => `${name} ${[value].flat().join(" | ")}`).join(", ");
    }

    // Asks for outputs that hold, or lack, one phrase more.
    addPhrase(name, phrase) {
      const area = this.lists.get(name);
      area.value = [...new Set([...linesOf(area), phrase])].join("\n");
      this.node.open = true;
      this.changed();
    }
  };
})((window.insight = window.insight || {}));
