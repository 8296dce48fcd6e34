"use strict";
// The page without this script is complete but for evidence and code. All text from the data is set as text, never as markup.
(() => {
  // Characters that reverse or hide the text around them would let code look like other code. As in report/text.py.
  const visible = (text) => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => {
    const code = c.charCodeAt(0).toString(16);
    return code.length > 2 ? `\\u${code}` : `\\x${code.padStart(2, "0")}`;
  });
  const make = (tag, kind, ...inner) => {
    const node = document.createElement(tag);
    if (kind) node.className = kind;
    for (const part of inner) if (part !== null && part !== undefined) node.append(typeof part === "string" ? visible(part) : part);
    return node;
  };
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- colours ---------------------------------------------------------------------------------------------------
  const theme = document.getElementById("theme");
  const themes = [["", "◐", "as the system"], ["light", "○", "light"], ["dark", "●", "dark"]];
  let chosen = 0;
  theme.addEventListener("click", () => {
    chosen = (chosen + 1) % themes.length;
    const [name, sign, said] = themes[chosen];
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    theme.textContent = sign;
    theme.setAttribute("aria-label", `Colours: ${said}`);
  });

  // --- one run at a time -----------------------------------------------------------------------------------------
  const tabs = all("[role=tab]");
  const choose = (tab) => {
    for (const other of tabs) {
      const on = other === tab;
      other.setAttribute("aria-selected", String(on));
      other.tabIndex = on ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !on;
    }
  };
  tabs.forEach((tab, place) => {
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(place + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
  if (tabs.length) choose(tabs[0]);

  // --- data, unpacked when first needed --------------------------------------------------------------------------
  let unpacked = null;
  const data = () => {
    unpacked ??= (async () => {
      const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      return JSON.parse(await new Response(stream).text());
    })();
    return unpacked;
  };

  // --- code ------------------------------------------------------------------------------------------------------
  const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from "
    + "global if import in is lambda nonlocal not or pass raise return try while with yield").split(" "));
  const TOKEN = /(#[^\n]*)|([rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\b\d[\w.]*)|(@?[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)/g;
  const tokens = (code) => {
    const found = [];
    let position = 0, before = "";
    for (const match of code.matchAll(TOKEN)) {
      if (match.index > position) found.push([null, code.slice(position, match.index)]);
      const [text, comment, string, number, word] = match;
      let kind = comment !== undefined ? "c" : string !== undefined ? "s" : number !== undefined ? "n" : null;
      if (word !== undefined) kind = KEYWORDS.has(word) ? "k" : word[0] === "@" || before === "def" || before === "class" ? "d" : null;
      found.push([kind, text]);
      before = text;
      position = match.index + text.length;
    }
    found.push([null, code.slice(position)]);
    return found;
  };
  const listing = (code, flagged) => {
    const body = make("code");
    let line = make("span", "l"), number = 1;
    const end = () => {
      if (flagged.has(number)) line.classList.add("flagged");
      line.append("\n");
      body.append(line);
      line = make("span", "l");
      number += 1;
    };
    for (const [kind, text] of tokens(code.replace(/\n$/, ""))) {
      text.split("\n").forEach((part, place) => {
        if (place) end();
        if (part) line.append(kind ? make("span", kind, part) : visible(part));
      });
    }
    end();
    const pre = make("pre", "", body);
    pre.tabIndex = 0;
    return pre;
  };

  // --- evidence --------------------------------------------------------------------------------------------------
  const scientific = (value) => (typeof value === "number" ? value.toExponential(2) : value ?? "");
  const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : value ?? "");
  const percent = (value) => (typeof value === "number" ? `${Math.round(100 * value)}%` : "");
  const table = (title, columns, rows) => {
    if (!rows.length) return null;
    const head = make("tr", "", ...columns.map((name) => make("th", "", name)));
    const body = rows.map((cells) => make("tr", "", ...cells.map((cell) => {
      const td = make("td", String(cell).length > 48 ? "wide" : "", String(cell));
      if (cell === "failed" || cell === "error") td.classList.add("bad");
      return td;
    })));
    return make("div", "", make("h4", "", title), make("table", "", columns.some(Boolean) ? make("thead", "", head) : null, make("tbody", "", ...body)));
  };
  const checks = (verdict) => table("Checks against fp64", ["case", "result", "error", "reference's own", "allowed", "detail"],
    (verdict.checks ?? []).map((c) => [c.inputs, c.passed ? "passed" : "failed", scientific(c.max_error), scientific(c.reference_max_error),
      scientific(c.allowed_error), c.detail ?? ""]));
  const times = (verdict) => {
    if (!verdict.timing) return null;
    const row = (name, t, s) => [name, short(t.median_ms), `${short(t.p20_ms)} to ${short(t.p80_ms)}`,
      s ? `${s.ratio.toFixed(2)}x (${s.low.toFixed(2)} to ${s.high.toFixed(2)})` : ""];
    const base = Object.entries(verdict.baselines ?? {}).map(([name, t]) => row(name === "compile" ? "torch.compile" : name, t, verdict.speedups?.[name]));
    return table("Time", ["program", "median ms", "p20 to p80", "candidate's speed-up"], [row("candidate", verdict.timing), ...base]);
  };
  const kernels = (verdict) => table("Kernels", ["kernel", "launches", "time", "on", "registers", "spills", "shared bytes", "occupancy"],
    (verdict.kernels ?? []).flatMap((k) => {
      const own = k.registers !== undefined || !k.targets ? [["this device", short(k.registers), short(k.spills), short(k.shared_bytes), ""]] : [];
      const rows = [...own, ...(k.targets ?? []).map((t) => t.error ? [t.arch, t.error, "", "", ""]
        : [t.arch, short(t.registers), short(t.spills), short(t.shared_bytes), percent(t.occupancy)])];
      return rows.map((row, place) => [...(place ? ["", "", ""] : [k.name, k.launches ?? 0, percent(k.time_share)]), ...row]);
    }));
  const findings = (verdict) => table("Findings", ["line", "severity", "rule", "message"],
    (verdict.findings ?? []).map((f) => [f.line ?? "", f.severity, f.rule, f.message]));
  const facts = (attempt, verdict) => {
    const rows = [];
    if (attempt.official) rows.push(["as published", attempt.official.executed ? "executes" : attempt.official.called ? "is called, fails" : "cannot be called",
      attempt.official.detail ?? ""]);
    if (verdict.tier) rows.push(["judged up to", verdict.tier, ""]);
    if (verdict.roofline_share !== undefined) rows.push(["of the roofline", percent(verdict.roofline_share), ""]);
    if (verdict.peak_memory_bytes !== undefined) rows.push(["peak memory", `${short(verdict.peak_memory_bytes / 1048576)} MiB`, ""]);
    if (verdict.deterministic === false) rows.push(["deterministic", "no", ""]);
    for (const [name, count] of Object.entries(verdict.torch_ops ?? {})) rows.push(["left to torch", `${name} x${count}`, ""]);
    for (const note of verdict.notes ?? []) rows.push(["note", note, ""]);
    rows.push(["candidate", attempt.candidate, ""]);
    return table("Facts", ["", "", ""], rows);
  };
  const shown = (task, attempt, texts) => {
    const verdict = attempt.verdict ?? {};
    const flagged = new Set((verdict.findings ?? []).map((f) => f.line));
    const said = attempt.error !== undefined ? `not scored: ${attempt.error}` : verdict.message ?? "";
    const code = attempt.code === undefined ? make("p", "dim", "The code of this sample is in the run's folder only.") : listing(texts[attempt.code], flagged);
    const evidence = [checks(verdict), times(verdict), kernels(verdict), findings(verdict), facts(attempt, verdict)].filter(Boolean);
    return make("div", "", make("p", "message", said), make("div", "evidence", ...evidence),
      make("div", "codes", make("div", "", make("h4", "", "Reference"), listing(texts[task.reference], new Set())),
        make("div", "", make("h4", "", "Candidate"), code)));
  };
  const label = (attempt) => {
    const speed = attempt.verdict?.speedups?.eager;
    const word = attempt.verdict ? attempt.verdict.outcome.replaceAll("_", " ") : "not scored";
    return `${attempt.sample + 1}: ${word}${speed && word === "correct" ? ` ${speed.ratio.toFixed(2)}x` : ""}`;
  };
  const detail = (task, texts) => {
    if (!task.attempts.length) return make("div", "", make("p", "message dim", "No answer was given."), make("h4", "", "Reference"), listing(texts[task.reference], new Set()));
    const place = make("div");
    const picks = task.attempts.map((attempt) => {
      const button = make("button", "", label(attempt));
      button.type = "button";
      button.addEventListener("click", () => {
        for (const other of picks) other.setAttribute("aria-pressed", String(other === button));
        place.replaceChildren(shown(task, attempt, texts));
      });
      return button;
    });
    picks[task.best].click();
    return make("div", "", picks.length > 1 ? make("div", "samples controls", ...picks) : null, place);
  };

  const counted = (count) => `${count} task${count === 1 ? "" : "s"}`;

  // --- the list of tasks -----------------------------------------------------------------------------------------
  const toggle = async (button) => {
    const row = button.closest("tr");
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { row.nextElementSibling?.matches(".detail") && row.nextElementSibling.remove(); return; }
    const cell = make("td", "", "…");
    cell.colSpan = row.cells.length;
    row.after(make("tr", "detail", cell));
    try {
      const { runs, texts } = await data();
      cell.replaceChildren(detail(runs[button.dataset.run][button.dataset.task], texts));
    } catch (error) {
      cell.replaceChildren(make("p", "bad", `This browser cannot unpack the evidence (${error.message}).`));
    }
  };
  for (const panel of all(".run")) {
    const body = panel.querySelector(".tasks tbody");
    const rows = all("tr.task", body);
    body.addEventListener("click", (event) => {
      const button = event.target.closest(".open");
      if (button) toggle(button);
    });
    const follow = (row) => (row.nextElementSibling?.matches(".detail") ? row.nextElementSibling : null);
    const [find, outcome, family] = [".find", ".by-outcome", ".by-family"].map((name) => panel.querySelector(name));
    const filter = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const on = (!outcome.value || row.dataset.outcome === outcome.value)
          && (!family.value || row.dataset.families.split(" ").includes(family.value)) && words.every((word) => text.includes(word));
        row.hidden = !on;
        const opened = follow(row);
        if (opened) opened.hidden = !on;
        count += on;
      }
      panel.querySelector(".count").textContent = count === rows.length ? counted(count) : `${count} of ${counted(rows.length)}`;
    };
    for (const control of [find, outcome, family]) for (const kind of ["input", "change"]) control.addEventListener(kind, filter);
    all(".sort", panel).forEach((button) => button.addEventListener("click", () => {
      const head = button.closest("th");
      const number = button.dataset.as === "number";
      const was = head.getAttribute("aria-sort");
      const descending = was === "none" ? number : was === "ascending";
      for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[head.cellIndex];
        return number ? Number.parseFloat(cell.dataset.value ?? "NaN") : cell.textContent.trim();
      };
      // What has no value stays at the end, whichever way.
      const compare = (a, b) => number
        ? Number.isNaN(a) - Number.isNaN(b) || (descending ? b - a : a - b) || 0
        : (descending ? -1 : 1) * a.localeCompare(b, "en", { numeric: true });
      const keyed = rows.map((row) => [key(row), row, follow(row)]);
      keyed.sort((a, b) => compare(a[0], b[0]));
      body.append(...keyed.flatMap(([, row, opened]) => (opened ? [row, opened] : [row])));
    }));
  }

  window.addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
})();
