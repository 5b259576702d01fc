// The explorer: every example, searched and filtered in memory, a page of rows in the document.
"use strict";
(() => {
  const { element } = Report;
  const PER_PAGE = 25;
  const form = document.getElementById("filters"), rows = document.getElementById("rows");
  const detail = document.getElementById("detail"), found = document.getElementById("found");
  let tasks = [], task = null, matches = [], page = 0, shown = -1;

  const texts = new WeakMap();  // task -> one lower-case string an example, made at the first search
  function textsOf(of) {
    if (!texts.has(of)) {
      texts.set(of, of.ids.map((id, i) => [id, Report.prompt(of, i), ...of.candidates[i]].join("\n").toLowerCase()));
    }
    return texts.get(of);
  }

  function readFilters() {
    const data = new FormData(form);
    const k = data.get("conditional");
    return {
      words: String(data.get("text")).toLowerCase().split(/\s+/).filter(Boolean),
      subject: data.get("subject") ? Number(data.get("subject")) : null,
      conditional: k ? Number(k) : null,
      ensemble: data.get("ensemble"), order: data.get("order"),
      disagreeing: data.has("disagreeing"), wrong: data.has("wrong"),
    };
  }

  function passes(i, f, haystack) {
    const answers = task.answers[i], labels = task.labels[i];
    const isRight = (c) => labels.includes(c);
    if (f.subject !== null && task.subject[i] !== f.subject) return false;
    if (f.conditional !== null && answers[f.conditional] < 0) return false;
    if (f.disagreeing) {
      const against = f.conditional ? [answers[0], answers[f.conditional]] : answers;
      const given = against.filter((c) => c >= 0);
      if (given.every((c) => c === given[0])) return false;
    }
    if (f.wrong) {
      const asked = f.conditional === null ? answers : [answers[f.conditional]];
      if (!asked.some((c) => c >= 0 && !isRight(c))) return false;
    }
    if (f.ensemble) {
      const after = isRight(task.ensemble[i]), before = answers[0] < 0 ? null : isRight(answers[0]);
      const holds = { mends: before === false && after, breaks: before === true && !after, right: after, wrong: !after };
      if (!holds[f.ensemble]) return false;
    }
    return !haystack || f.words.every((word) => haystack[i].includes(word));
  }

  // The filters in words, so that nobody has to guess what "wrong only" means under a choice.
  function inWords(f) {
    const one = f.conditional === null ? null : task.conditionals[f.conditional];
    const said = [];
    if (one && !f.disagreeing && !f.wrong) said.push(`${one} applies`);
    if (f.disagreeing) said.push(f.conditional ? `${one} differs from ${task.conditionals[0]}` : "the conditionals disagree");
    if (f.wrong) said.push(one ? `${one} is wrong` : "some conditional is wrong");
    if (f.ensemble) said.push({ mends: "the maximum mends the baseline", breaks: "the maximum breaks the baseline", right: "the maximum is right", wrong: "the maximum is wrong" }[f.ensemble]);
    if (f.subject !== null) said.push(`the subject is ${task.subjects[f.subject]}`);
    if (f.words.length) said.push(`the text holds ${f.words.map((w) => `“${w}”`).join(" and ")}`);
    return said.length ? ` where ${said.join(", and ")}` : "";
  }

  function filter() {
    const f = readFilters();
    const haystack = f.words.length ? textsOf(task) : null;
    matches = task.ids.map((_, i) => i).filter((i) => passes(i, f, haystack));
    if (f.order === "divergence") matches.sort((a, b) => task.divergence[b] - task.divergence[a] || a - b);
    page = 0;
    const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
    found.textContent = `${count(matches.length)} of ${count(task.ids.length)} examples${inWords(f)}.`;
    list();
  }

  function list() {
    const pages = Math.max(1, Math.ceil(matches.length / PER_PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    rows.replaceChildren(...matches.slice(page * PER_PAGE, (page + 1) * PER_PAGE).map((i) => element("li", {},
      element("a", { href: Report.address(task, i), "data-example": i, "aria-current": i === shown ? "true" : null },
        element("span", { class: "first" }, Report.tail(task, i), element("span", { class: "nats" }, task.divergence[i].toFixed(3))),
        Report.votes(task, i)))));
    document.getElementById("page").textContent = `page ${page + 1} of ${pages}`;
    document.getElementById("previous").disabled = page === 0;
    document.getElementById("next").disabled = page === pages - 1;
  }

  function fillChoices() {
    const options = (name, first, names) => form.elements[name].replaceChildren(element("option", { value: "" }, first),
      ...names.map((text, at) => element("option", { value: at }, text || "(none)")));
    options("subject", "all subjects", task.subjects);
    options("conditional", "all conditionals", task.conditionals);
  }

  function clear() {
    for (const field of form.elements) {
      if (field.type === "checkbox") field.checked = false;
      else if (field.name && field.name !== "task") field.value = field.name === "order" ? "task" : "";
    }
  }

  function choose(next) {
    task = next;
    shown = -1;
    form.elements.task.value = tasks.indexOf(task);
    fillChoices();
    filter();
  }

  function show(i, turn = true) {
    shown = i;
    if (!matches.includes(i)) {  // a permalink wins over filters that would hide it
      clear();
      filter();
    }
    if (turn) page = Math.floor(matches.indexOf(i) / PER_PAGE);
    list();
    detail.replaceChildren(Report.card(task, i, readFilters().conditional || null));
    detail.scrollTop = 0;
  }

  function followAddress() {
    const parts = location.hash.slice(1).split("/");
    if (parts.length !== 2) return;
    let names;
    try { names = parts.map(decodeURIComponent); } catch { return; }
    const wanted = tasks.find((t) => t.task === names[0]);
    const i = wanted ? wanted.ids.indexOf(names[1]) : -1;
    if (i < 0) {
      found.textContent = `This run has no example ${names[1]} in a task ${names[0]}.`;
      return;
    }
    if (wanted !== task) choose(wanted);
    show(i);
    const box = detail.getBoundingClientRect();
    if (box.top < 0 || box.top > innerHeight * 0.6) detail.scrollIntoView({ block: "start" });
    if (!rows.contains(document.activeElement)) detail.focus({ preventScroll: true });
  }

  function save() {
    const head = ["task", "id", "subject", "prompt", "candidates", "labels", "divergence_nats", "max_answer", ...task.conditionals];
    const lines = matches.map((i) => [task.task, task.ids[i], task.subjects[task.subject[i]], Report.prompt(task, i),
      JSON.stringify(task.candidates[i]), task.labels[i].join(" "), task.divergence[i], task.ensemble[i],
      ...task.answers[i].map((c) => (c < 0 ? "" : c))]);
    Report.download(`${task.task.replace(/[^\w.-]+/g, "_")}-examples.csv`, "text/csv", Report.csv([head, ...lines]));
  }

  document.addEventListener("DOMContentLoaded", async () => {
    try {
      tasks = await Report.examples;
    } catch (error) {
      found.textContent = `The examples cannot be shown: ${error.message}.`;
      return;
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => (event.target.name === "task" ? choose(tasks[Number(event.target.value)]) : filter()));
    document.getElementById("clear").addEventListener("click", () => { clear(); filter(); });
    document.getElementById("previous").addEventListener("click", () => { page -= 1; list(); });
    document.getElementById("next").addEventListener("click", () => { page += 1; list(); });
    document.getElementById("save-examples").addEventListener("click", save);
    rows.addEventListener("keydown", (event) => {
      const links = [...rows.querySelectorAll("a")], at = links.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
      if (to === undefined || !links[to]) return;
      event.preventDefault();
      links[to].focus();
    });
    choose(tasks[0]);
    if (task.ids.length) show(task.top[0] ?? 0, false);
    window.addEventListener("hashchange", followAddress);
    followAddress();
    document.documentElement.dataset.ready = "true";
  });
})();
