"use strict";
(() => {
  // ---------------------------------------------------------------- small things

  const {
    byId, clamp, el, svg, count, counted, number, percent, fixed, COLOURS, SHAPES, markOf, themeButton, resolved, mapOn,
  } = tautcut;
  const pristine = document.documentElement.cloneNode(true); // what a saved copy of this page is made from
  const data = JSON.parse(document.getElementById("data").textContent);
  const { summary, clusters, shown } = data;
  for (const cluster of clusters) cluster.label ??= cluster.name; // the name can be changed, the label stays
  const [noun, nouns] = summary.nouns; // "cluster", "clusters"; where labels were given, "class", "classes"
  const Noun = noun[0].toUpperCase() + noun.slice(1);
  const colourOf = (r) => `var(--c${clusters[r].colour})`;
  // Clusters beyond the tenth share a colour and differ in shape.
  const shapeOf = (r) => SHAPES[Math.floor(r / COLOURS) % SHAPES.length];

  const marked = (node, r) => {
    node.style.setProperty("--mark", colourOf(r));
    node.dataset.cluster = r;
    return node;
  };

  const nameOf = (point) => point.id ?? `#${point.vertex}`;
  const hasMasses = summary.mass !== undefined;
  const weightUnit = summary.is_unweighted ? "edges" : "edge weight";

  const mark = (r) => markOf(shapeOf(r), colourOf(r));
  // Whatever says the name of a cluster says it again when the name changes, in place: nothing else is drawn anew.
  let sayers = [];
  const says = (node, what, words) => {
    const say = () => (what === "text" ? (node.textContent = words()) : node.setAttribute(what, words()));
    say();
    sayers.push({ node, say });
    return node;
  };
  const forgetGone = () => {
    sayers = sayers.filter(({ node }) => node.isConnected);
  };
  const nameOfCluster = (r) => {
    const node = says(el("span", { class: "name" }), "text", () => clusters[r].name);
    return says(node, "title", () => clusters[r].name); // a long name is cut short where there is little room
  };
  const named = (r) => el("span", { class: "named" }, mark(r), nameOfCluster(r));
  const bar = (share, label, width) => {
    // a bar before its number, which takes `width` characters
    const node = el("span", { class: "bar", "aria-hidden": "true" }, el("i"));
    node.style.setProperty("--share", clamp(share, 0, 1));
    const value = el("span", { class: "value" }, label);
    value.style.minWidth = `${width}ch`;
    return el("span", { class: "barred" }, node, value);
  };
  const cell = (content, attributes = {}) => el("td", attributes, content);
  const table = (heads, rows, attributes = {}) => {
    const head = el("tr", {}, ...heads.map(([text, kind]) => el("th", { scope: "col", class: kind ?? "" }, text)));
    return el("table", attributes, el("thead", {}, head), el("tbody", {}, ...rows));
  };

  // ---------------------------------------------------------------- one chosen cluster, everywhere

  let chosen = null;
  const listeners = [];
  const showChoice = () => {
    for (const node of document.querySelectorAll("[data-cluster]")) {
      const mine = node.dataset.cluster.split(" ").includes(String(chosen));
      node.classList.toggle("is-chosen", chosen !== null && mine);
      node.classList.toggle("is-dim", chosen !== null && !mine && !node.classList.contains("chip"));
      if (node.classList.contains("chip")) node.setAttribute("aria-pressed", String(mine));
    }
    document.documentElement.style.setProperty("--chosen", chosen === null ? "transparent" : colourOf(chosen));
    byId("legend").firstElementChild.setAttribute("aria-pressed", String(chosen === null));
  };
  const choose = (r) => {
    chosen = r === chosen ? null : r;
    showChoice();
    for (const listen of listeners) listen();
    byId("said").textContent =
      chosen === null
        ? `All ${nouns} are shown.`
        : `${Noun} ${clusters[chosen].name}, ${counted(clusters[chosen].size, "point")}, is highlighted.`;
  };

  const drawLegend = () => {
    const all = el("button", { type: "button", class: "chip", "aria-pressed": "true" }, `All ${nouns}`);
    all.addEventListener("click", () => {
      if (chosen !== null) choose(null);
    });
    const chips = clusters.map((cluster, r) => {
      const kind = { type: "button", class: "chip", "aria-pressed": "false", tabindex: "-1" };
      const chip = marked(el("button", kind, mark(r), nameOfCluster(r)), r);
      says(chip, "aria-label", () => `${Noun} ${cluster.name}, ${counted(cluster.size, "point")}`);
      chip.addEventListener("click", () => choose(r));
      return chip;
    });
    byId("legend").replaceChildren(all, ...chips);
  };
  const listenToLegend = () => {
    const legend = byId("legend");
    legend.addEventListener("keydown", (event) => {
      const chips = [...legend.children];
      const at = chips.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: chips.length - 1 }[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      const next = chips[clamp(to, 0, chips.length - 1)];
      chips[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      if (box !== null) selectBox(null);
      else if (chosen !== null) choose(null);
    });
  };

  // ---------------------------------------------------------------- names, and files to take away

  // The escapes of the page's own writer: without "<" no tag can begin, and the others end a line in JavaScript.
  const embedded = (content) =>
    JSON.stringify(content).replace(
      /[<>&\u2028\u2029]/g,
      (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
  const download = (name, type, parts) => {
    const address = URL.createObjectURL(new Blob(parts, { type }));
    const link = el("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  const savePage = () => {
    const copy = pristine.cloneNode(true);
    copy.querySelector("#data").textContent = embedded(data);
    download("tautcut-report.html", "text/html", ["<!doctype html>\n", copy.outerHTML, "\n"]);
  };
  const csvCell = (value) => {
    const text = String(value);
    const inert = /^[=+\-@\t\r]/.test(text) && typeof value === "string" ? `'${text}` : text; // no formula
    return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  const exportPoints = () => {
    const rows = found.map((i) => {
      const { label, name } = clusters[points.cluster[i]];
      const row = vertexOf(i);
      return [row, data.map.ids ? data.map.ids[i] : row, label, name, (points.confidence[i] / 65535).toFixed(4)];
    });
    const lines = [["row", "id", "label", "name", "confidence"], ...rows].map((row) => row.map(csvCell).join(","));
    // The first letter tells spreadsheets that this is UTF-8.
    download("tautcut-points.csv", "text/csv", ["\ufeff", lines.join("\r\n"), "\r\n"]);
  };

  const sayNames = () => {
    forgetGone();
    for (const { say } of sayers) say();
    const shownPoint = current;
    current = null;
    pick(shownPoint);
    redraw();
  };
  const rename = (r, name) => {
    clusters[r].name = name.trim() || clusters[r].label;
    sayNames();
    byId("said").textContent = `${Noun} ${clusters[r].label} is now called ${clusters[r].name}.`;
  };
  const nameCell = (r) => {
    const edit = el("button", { type: "button", class: "rename" }, "✎");
    says(edit, "aria-label", () => `Rename ${noun} ${clusters[r].name}`);
    const whole = el("span", { class: "nameable" }, named(r), edit);
    if (clusters[r].strains) whole.append(el("span", { class: "tag" }, "strains"));
    const head = el("th", { scope: "row" }, whole);
    edit.addEventListener("click", (event) => {
      event.stopPropagation();
      const label = `Name of ${noun} ${clusters[r].label}`;
      const input = el("input", { type: "text", maxlength: "48", "aria-label": label });
      input.value = clusters[r].name;
      let isDone = false; // a field that is taken away also loses the focus
      const finish = (isKept, isByKey) => {
        if (isDone) return;
        isDone = true;
        const name = input.value;
        head.replaceChildren(whole);
        if (isKept) rename(r, name);
        if (isByKey) edit.focus();
      };
      input.addEventListener("click", (inside) => inside.stopPropagation());
      input.addEventListener("blur", () => finish(true, false));
      input.addEventListener("keydown", (key) => {
        key.stopPropagation();
        if (key.key !== "Enter" && key.key !== "Escape") return;
        key.preventDefault(); // or the button that gets the focus would be pressed by the same key
        finish(key.key === "Enter", true);
      });
      head.replaceChildren(el("span", { class: "nameable" }, mark(r), input));
      input.select();
    });
    return head;
  };

  // ---------------------------------------------------------------- the head of the page

  const drawHead = () => {
    const what = `${counted(summary.n_clusters, noun, nouns)} of ${counted(summary.n_points, "point")}`;
    document.title = `${what} · tautcut`;
    byId("title").textContent = what;
    const empty = clusters.filter((cluster) => cluster.size === 0).length;
    const kept =
      summary.kept === null
        ? "The graph has no edges, so nothing says which points belong together."
        : `${percent(summary.kept)} of the ${weightUnit} stay${summary.is_unweighted ? "" : "s"} inside the ${nouns}.`;
    const doubt =
      `${counted(summary.doubtful, "point")} (${percent(summary.doubtful / summary.n_points)}) ` +
      (summary.is_chance
        ? `${summary.doubtful === 1 ? "is" : "are"} more likely wrong than right.`
        : `${summary.doubtful === 1 ? "lies" : "lie"} between two ${nouns}, with confidence below ${fixed(summary.doubtful_below)}.`);
    const gone = empty ? ` ${counted(empty, noun, nouns)} ${empty === 1 ? "is" : "are"} empty: ask for fewer.` : "";
    byId("verdict").textContent = `${kept} ${doubt}${gone}`;
    const told = data.findings.find((finding) => ["balance", "labels"].includes(finding.name));
    byId("callout").hidden = !told;
    if (told) byId("callout").replaceChildren(el("b", {}, told.meaning), ` ${told.advice}`);
    const facts = [
      [
        count(summary.n_points),
        summary.n_labelled ? `points, ${count(summary.n_labelled)} with a given label` : "points",
      ],
      [count(summary.n_edges), "edges between similar points"],
      [summary.kept === null ? "none" : percent(summary.kept), `of the ${weightUnit} inside ${nouns}`],
      [fixed(summary.confidence), "mean confidence, from 0\u00a0to\u00a01"],
      ...(hasMasses ? [[number(summary.mass, 6), "mass of all points"]] : []),
      [
        number(summary.energy),
        `energy: ${weightUnit} cut per ${hasMasses ? "unit of mass" : "point"}, balanced; lower is better`,
      ],
    ];
    byId("figures").append(...facts.map(([value, label]) => el("div", {}, el("dt", {}, label), el("dd", {}, value))));
    const made = new Date(data.circumstances.created);
    byId("created").textContent = made.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
  };

  // ---------------------------------------------------------------- clusters and what lies between them

  const drawClusters = () => {
    byId("clusters-caption").textContent =
      `A ${noun} is good if few ${weightUnit} leave it. Its cost is what leaves, divided by the smaller of ` +
      `${hasMasses ? "the mass of its own points" : "its own points"} ` +
      `${summary.lam === null ? "(weighted by the expected shares)" : `times ${number(summary.lam)}`} and ` +
      `${hasMasses ? "that of all others" : "all other points"}, ` +
      `so that tiny ${nouns} do not pay. The costs add up to the energy, which the method makes as low as it can. ` +
      `Choose a row to find the ${noun} everywhere on this page, and ✎ to name it.`;
    const largest = Math.max(...clusters.map((cluster) => cluster.size), 1);
    const decimals =
      summary.energy > 0 ? clamp(2 - Math.floor(Math.log10(summary.energy / clusters.length)), 0, 12) : 0;
    const cost = (x) =>
      x === null
        ? "infinite"
        : x.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    const rows = clusters.map((cluster, r) => {
      const row = marked(
        el(
          "tr",
          {},
          nameCell(r),
          cell(bar(cluster.size / largest, count(cluster.size), count(largest).length)),
          cell(percent(cluster.size / summary.n_points)),
          ...(hasMasses ? [cell(number(cluster.mass, 6)), cell(percent(cluster.mass / summary.mass))] : []),
          cell(cluster.volume > 0 ? percent(cluster.cut / cluster.volume) : "no edges"),
          cell(cost(cluster.term)),
          cell(cluster.size ? fixed(cluster.confidence) : "empty"),
        ),
        r,
      );
      row.addEventListener("click", () => choose(r));
      return row;
    });
    const heads = [
      [Noun],
      ["Points"],
      ["Share"],
      ...(hasMasses ? [["Mass"], ["Share of mass"]] : []),
      [`${summary.is_unweighted ? "Edges" : "Edge weight"} leaving it`],
      ["Cost"],
      ["Mean confidence"],
    ];
    const made = table(heads, rows, { class: "wide" });
    const leaving = summary.kept === null ? "no edges" : percent(1 - summary.kept);
    made.append(
      el(
        "tfoot",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "row" }, "All"),
          cell(count(summary.n_points)),
          cell("100.0 %"),
          ...(hasMasses ? [cell(number(summary.mass, 6)), cell("100.0 %")] : []),
          cell(leaving),
          cell(cost(summary.energy)),
          cell(fixed(summary.confidence)),
        ),
      ),
    );
    byId("clusters-table").replaceChildren(made);
  };

  const drawBetween = () => {
    const share = (i, j) => (clusters[shown[i]].volume > 0 ? data.matrix[i][j] / clusters[shown[i]].volume : 0);
    const places = shown.map((_, i) => i);
    const most = Math.max(...places.flatMap((i) => places.filter((j) => j !== i).map((j) => share(i, j))), 1e-12);
    const heat = (i, j) => {
      const [from, to] = [clusters[shown[i]], clusters[shown[j]]];
      const node = el("td", {}, data.matrix[i][j] > 0 ? percent(share(i, j)).replace(" %", "") : "·");
      node.dataset.cluster = i === j ? shown[i] : `${shown[i]} ${shown[j]}`;
      says(node, "title", () =>
        i === j
          ? `Inside ${noun} ${from.name}: ${number(data.matrix[i][j] / 2)} ${weightUnit}`
          : `Between ${nouns} ${from.name} and ${to.name}: ${number(data.matrix[i][j])} ${weightUnit}`,
      );
      if (i === j) node.classList.add("is-inside");
      else {
        const strength = 0.9 * Math.sqrt(share(i, j) / most);
        node.style.setProperty("--heat", strength);
        node.classList.toggle("is-strong", strength > 0.62);
      }
      return node;
    };
    const head = (r, scope) => {
      const node = marked(el("th", { scope }, named(r)), r);
      node.addEventListener("click", () => choose(r));
      return node;
    };
    const rows = places.map((i) => el("tr", {}, head(shown[i], "row"), ...places.map((j) => heat(i, j))));
    byId("between-table").replaceChildren(
      el(
        "table",
        { class: shown.length > 16 ? "heat is-dense" : "heat" },
        el(
          "thead",
          {},
          el("tr", {}, el("th", { scope: "col", class: "text" }, "from ↓ to →"), ...shown.map((r) => head(r, "col"))),
        ),
        el("tbody", {}, ...rows),
      ),
    );
    const rest = clusters.length - shown.length;
    const hover = `Hold the pointer over a cell for the ${summary.is_unweighted ? "number of edges" : "edge weight"}.`;
    byId("between-note").textContent =
      (matchMedia("(hover: hover)").matches ? `${hover} ` : "") +
      (rest
        ? `The ${count(shown.length)} largest ${nouns} are shown, here and below; the other ${count(rest)} are in the table above.`
        : "");
  };

  const wordOf = (word) => (word === "" ? "(empty)" : word);
  const drawCross = () => {
    byId("cross").hidden = byId("cross-link").hidden = data.cross.length === 0;
    if (!data.cross.length) return;
    const at = Math.max(byId("cross-column").selectedIndex, 0);
    const { name, words, counts, majority } = data.cross[at];
    byId("cross-caption").textContent =
      `How many points of each ${noun} have each value of “${name}”, a column that points were not compared by. ` +
      `${percent(majority)} of all points have the most frequent value of their ${noun}.`;
    const rows = shown.map((r, i) => {
      const most = Math.max(...counts[i]);
      const cells = counts[i].map((n, k) => {
        const share = clusters[r].size ? n / clusters[r].size : 0;
        const node = el("td", {}, n ? count(n) : "·");
        says(node, "title", () => `${percent(share)} of ${noun} ${clusters[r].name}: ${wordOf(words[k])}`);
        node.style.setProperty("--heat", 0.9 * Math.sqrt(share));
        node.classList.toggle("is-strong", 0.9 * Math.sqrt(share) > 0.62);
        node.classList.toggle("is-most", n > 0 && n === most);
        node.dataset.cluster = r;
        return node;
      });
      const head = marked(el("th", { scope: "row" }, named(r)), r);
      head.addEventListener("click", () => choose(r));
      return el("tr", {}, head, ...cells);
    });
    const heads = words.map((word) =>
      el("th", { scope: "col" }, el("span", { class: "name", title: wordOf(word) }, wordOf(word))),
    );
    byId("cross-table").replaceChildren(
      el(
        "table",
        { class: words.length > 16 ? "heat is-dense" : "heat" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "text" }, Noun), ...heads)),
        el("tbody", {}, ...rows),
      ),
    );
  };
  const startCross = () => {
    byId("cross-column").append(...data.cross.map((one) => el("option", {}, one.name)));
    byId("cross-column").addEventListener("change", () => {
      drawCross();
      showChoice();
    });
    byId("cross-name").addEventListener("click", () => {
      const { words, counts } = data.cross[Math.max(byId("cross-column").selectedIndex, 0)];
      const used = new Map();
      shown.forEach((r, i) => {
        if (!clusters[r].size) return;
        const word = wordOf(words[counts[i].indexOf(Math.max(...counts[i]))]);
        used.set(word, (used.get(word) ?? 0) + 1);
        clusters[r].name = used.get(word) > 1 ? `${word} (${used.get(word)})` : word;
      });
      sayNames();
      byId("said").textContent = `Each ${noun} is now called after its most frequent value.`;
    });
  };

  // ---------------------------------------------------------------- points

  const thumb = (point) =>
    el("img", { class: "thumb", src: point.image, alt: `Point ${nameOf(point)}`, title: nameOf(point) });

  const drawExamples = () => {
    const cards = shown.map((r, i) => {
      const items = data.representatives[i].map((point) => el("li", {}, point.image ? thumb(point) : nameOf(point)));
      const typical =
        data.typical === null
          ? null
          : el(
              "ul",
              { class: "typical" },
              ...data.typical[i].map((feature) =>
                el(
                  "li",
                  {},
                  el("span", {}, feature.name),
                  el(
                    "span",
                    {},
                    `${number(feature.mean, 3)} (all: ${number(feature.overall, 3)}) ${feature.shift > 0 ? "↑" : "↓"}`,
                  ),
                ),
              ),
            );
      const card = marked(
        el(
          "article",
          { class: "card" },
          el("header", {}, named(r), el("span", {}, counted(clusters[r].size, "point"))),
          el("ul", { class: "thumbs" }, ...items),
          typical,
        ),
        r,
      );
      return says(card, "aria-label", () => `${Noun} ${clusters[r].name}`);
    });
    byId("examples-cards").append(...cards);
    if (data.typical !== null)
      byId("examples-caption").append(
        ` Below them, the features whose mean in the ${noun} is ` +
          "farthest from the mean over all points, measured in standard deviations.",
      );
  };

  // Points with their cluster, the one they could be in, and a number from 0 to 1.
  const pointTable = (listed, heads, measure) => {
    const images = listed.some((point) => point.image);
    const rows = listed.map((point) => {
      const find = el("button", { type: "button", class: "link" }, nameOf(point));
      find.addEventListener("click", () => showVertex(point.vertex));
      const row = el(
        "tr",
        {},
        images ? cell(thumb(point)) : null,
        cell(find, { class: "text" }),
        cell(named(point.cluster), { class: "text" }),
        cell(point.other === null ? "any: it has no neighbours" : named(point.other), { class: "text" }),
        cell(bar(point[measure], fixed(point[measure]), 4)),
      );
      row.dataset.cluster = point.other === null ? point.cluster : `${point.cluster} ${point.other}`;
      row.style.setProperty("--mark", colourOf(point.cluster));
      row.style.cursor = "auto";
      return row;
    });
    return table(images ? [["Image"], ...heads] : heads, rows, { class: "wide" });
  };

  const drawDoubtful = () => {
    if (summary.is_chance)
      byId("doubtful-caption").textContent =
        `The points whose ${noun} is least likely to be right: look at these first. Confidence is the estimated chance ` +
        "that it is; a label that was given counts as right. Choose a point to see it on the map.";
    const heads = [["Point", "text"], [`In ${noun}`, "text"], ["Could be in", "text"]];
    byId("doubtful-table").replaceChildren(
      data.uncertain.length
        ? pointTable(data.uncertain, [...heads, ["Confidence"]], "confidence")
        : el(
            "p",
            { class: "small" },
            `None: all neighbours of every point are in its own ${noun}, or its label was given.`,
          ),
    );
    byId("contradicted").hidden = !data.contradicted.length;
    if (data.contradicted.length)
      byId("contradicted-table").replaceChildren(
        pointTable(data.contradicted, [heads[0], ["Label", "text"], ["Neighbours", "text"], ["Support"]], "quality"),
      );
  };

  // ---------------------------------------------------------------- the map

  const unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const points = {
    x: unpack(data.map.x, Uint16Array),
    y: unpack(data.map.y, Uint16Array),
    cluster: unpack(data.map.cluster, Uint16Array),
    confidence: unpack(data.map.confidence, Uint16Array),
    edges: unpack(data.map.edges, Uint16Array),
    n: 0,
  };
  points.n = points.x.length;
  // Null where all points are listed, in their order.
  const vertices = data.map.vertex === null ? null : unpack(data.map.vertex, Uint32Array);
  const vertexOf = (i) => (vertices === null ? i : vertices[i]);
  const placeOf = (vertex) => (vertices === null ? vertex : vertices.indexOf(vertex));
  const drawn = data.map.drawn === null ? Uint32Array.from(points.x.keys()) : unpack(data.map.drawn, Uint32Array);
  const drawnAt = new Int32Array(points.n).fill(-1); // the place of a listed point among those that are drawn
  drawn.forEach((i, k) => (drawnAt[i] = k));
  const members = clusters.map(() => []); // drawn ones
  for (const i of drawn) members[points.cluster[i]].push(i);
  const pointName = (i) => (data.map.ids ? data.map.ids[i] : `#${vertexOf(i)}`);

  // Columns of the user's table, with the values of the points that are drawn.
  const MISSING = 65535;
  const columns = data.map.columns.map((column) => {
    const isWide = column.kind !== "number" && column.words.length > 65534;
    return { ...column, values: unpack(column.values, isWide ? Uint32Array : Uint16Array) };
  });
  const numberAt = (column, k) => {
    const level = column.values[k];
    if (level === MISSING) return null;
    const value = column.low + (level / 65534) * (column.high - column.low);
    return column.is_whole ? Math.round(value) : value;
  };
  const valueText = (column, k) => {
    if (column.kind !== "number") return wordOf(column.words[column.values[k]]);
    const value = numberAt(column, k);
    return value === null ? "missing" : number(value);
  };

  const canvas = byId("canvas");
  let current = null; // the point that hover, keyboard or the list has picked

  let isDue = false;
  const redraw = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      drawMap();
      map.placeTip(byId("tip"), current);
    });
  };
  const isReachable = (i) => chosen === null || points.cluster[i] === chosen;
  const map = mapOn(canvas, { redraw, isReachable });
  map.show(points, drawn);

  const drawEdges = (context, place) => {
    context.beginPath();
    for (let k = 0; k < points.edges.length; k += 2) {
      const [i, j] = [drawn[points.edges[k]], drawn[points.edges[k + 1]]];
      if (chosen !== null && points.cluster[i] !== chosen && points.cluster[j] !== chosen) continue;
      context.moveTo(...place(i));
      context.lineTo(...place(j));
    }
    context.strokeStyle = resolved("var(--muted)");
    context.globalAlpha = points.edges.length > 16000 ? 0.1 : 0.2;
    context.lineWidth = 0.6;
    context.stroke();
  };

  // What the map is coloured by: clusters, confidence, or a column; numbers by a scale, categories by the ten colours.
  const STEPS = 24;
  let colouring = null;
  const scaleColours = () => {
    const stops = [0, 1, 2, 3, 4].map((k) => resolved(`var(--s${k})`).match(/[\d.]+/g).slice(0, 3).map(Number));
    return Array.from({ length: STEPS }, (_, step) => {
      const at = (step / (STEPS - 1)) * 4;
      const k = Math.min(Math.floor(at), 3);
      return `rgb(${stops[k].map((from, c) => Math.round(from + (at - k) * (stops[k + 1][c] - from))).join(" ")})`;
    });
  };
  const shareOf = (i) => {
    if (colouring === "confidence") return points.confidence[i] / 65535;
    const value = numberAt(colouring, drawnAt[i]);
    if (value === null) return null;
    const { from, to } = colouring;
    return to > from ? clamp((value - from) / (to - from), 0, 1) : 0.5;
  };
  const coloured = () => {
    // groups of drawn points, each with its colour
    if (colouring === null)
      return clusters.map((_, r) => ({ few: members[r], shape: shapeOf(r), colour: resolved(colourOf(r)) }));
    if (colouring !== "confidence" && colouring.kind === "category") {
      const groups = Array.from({ length: COLOURS + 1 }, (_, c) => ({
        few: [],
        shape: null,
        colour: resolved(c < COLOURS ? `var(--c${c})` : "var(--muted)"),
      }));
      drawn.forEach((i, k) => groups[Math.min(colouring.values[k], COLOURS)].few.push(i));
      return groups.reverse(); // frequent ones on top
    }
    const groups = scaleColours().map((colour) => ({ few: [], shape: null, colour }));
    const missing = { few: [], shape: null, colour: resolved("var(--faint)") };
    for (const i of drawn) {
      const share = shareOf(i);
      (share === null ? missing : groups[Math.round(share * (STEPS - 1))]).few.push(i);
    }
    return [missing, ...groups];
  };
  const drawScale = () => {
    const scale = byId("scale");
    scale.hidden = colouring === null;
    if (colouring === null) return;
    if (colouring !== "confidence" && colouring.kind === "category") {
      const rest = colouring.words.length - COLOURS;
      const swatch = (colour, word) => {
        const node = el("span", { class: "swatch" }, el("i", {}), el("span", { class: "name", title: word }, word));
        node.style.setProperty("--mark", colour);
        return node;
      };
      scale.replaceChildren(
        ...colouring.words.slice(0, COLOURS).map((word, c) => swatch(`var(--c${c})`, wordOf(word))),
        ...(rest > 0 ? [swatch("var(--muted)", counted(rest, "other value"))] : []),
      );
      return;
    }
    const [from, to] = colouring === "confidence" ? [0, 1] : [colouring.from, colouring.to];
    const isCut = colouring !== "confidence" && (colouring.low < from || colouring.high > to);
    const label = colouring === "confidence" ? "confidence" : colouring.name;
    scale.replaceChildren(
      el("span", {}, `${isCut ? "≤ " : ""}${number(from)}`),
      el("span", { class: "gradient", role: "img", "aria-label": `Colours of ${label}, from low to high` }),
      el("span", {}, `${isCut ? "≥ " : ""}${number(to)}`),
      el("span", { class: "small" }, label),
    );
  };
  const startColours = () => {
    const menu = byId("colour");
    const colourable = columns.filter((column) => column.kind !== "text");
    const options = [[Noun, null], ["Confidence", "confidence"], ...colourable.map((column) => [column.name, column])];
    menu.append(...options.map(([label]) => el("option", {}, label)));
    menu.addEventListener("change", () => {
      colouring = options[menu.selectedIndex][1];
      drawScale();
      redraw();
    });
  };

  const centres = members.map(map.centreOf);
  const drawNames = (context) =>
    centres.forEach((centre, r) => {
      if (centre === null || (chosen !== null && chosen !== r)) return;
      const { name } = clusters[r];
      map.write(context, centre, name.length > 16 ? `${name.slice(0, 15)}…` : name);
    });

  const drawMap = () => {
    const context = map.cleared();
    if (byId("edges").checked) drawEdges(context, map.frame().place);
    const isFaint = (i) => chosen !== null && points.cluster[i] !== chosen;
    const groups = coloured();
    if (chosen !== null)
      for (const { few, shape } of groups) map.fill(context, few.filter(isFaint), { shape, isFaint: true });
    for (const { few, shape, colour } of groups)
      map.fill(context, chosen === null ? few : few.filter((i) => !isFaint(i)), { shape, colour });
    drawNames(context);
    drawBox(context);
    if (current !== null) {
      const r = points.cluster[current];
      if (drawnAt[current] < 0) map.fill(context, [current], { shape: shapeOf(r), colour: resolved(colourOf(r)) });
      map.circle(context, current);
    }
  };

  const SHOWN_VALUES = 6; // in a tooltip
  const sheet = data.map.sheet;
  const sheetImage = sheet === null ? null : new Image();
  const picture = (i) => {
    // the thumbnail of a drawn point, cut from the sheet that holds them all
    if (sheet === null || drawnAt[i] < 0) return null;
    const [column, row] = [drawnAt[i] % sheet.across, Math.floor(drawnAt[i] / sheet.across)];
    const { width, height } = sheet;
    const node = el("canvas", { class: "picture", width, height, "aria-hidden": "true" });
    const cutOut = () =>
      node.getContext("2d").drawImage(sheetImage, column * width, row * height, width, height, 0, 0, width, height);
    if (!sheetImage.src) sheetImage.src = sheet.image;
    if (sheetImage.complete) cutOut();
    else sheetImage.addEventListener("load", cutOut, { once: true });
    return node;
  };
  const valuesOf = (i) => {
    if (drawnAt[i] < 0 || !columns.length) return null;
    const few = columns.slice(0, SHOWN_VALUES);
    if (colouring !== null && colouring !== "confidence" && !few.includes(colouring)) few.push(colouring);
    const entries = few.flatMap((column) => [el("dt", {}, column.name), el("dd", {}, valueText(column, drawnAt[i]))]);
    return el("dl", {}, ...entries);
  };
  const pick = (i) => {
    if (i === current) return;
    current = i;
    if (i !== null) {
      const words = el(
        "div",
        {},
        el("b", {}, pointName(i)),
        el("span", { class: "named" }, mark(points.cluster[i]), `${Noun} ${clusters[points.cluster[i]].name}`),
        el("div", {}, `Confidence ${fixed(points.confidence[i] / 65535)}`),
      );
      const head = el("div", { class: "head" }, picture(i), words);
      byId("tip").replaceChildren(...[head, valuesOf(i)].filter((node) => node !== null));
    }
    redraw();
  };

  // A rectangle on the map selects points. It is kept in the map's own coordinates, so that it stays where it is.
  let box = null;
  const selectBox = (corners) => {
    box = corners;
    listPoints();
    redraw();
  };
  const isInBox = (i) =>
    points.x[i] >= Math.min(box[0][0], box[1][0]) &&
    points.x[i] <= Math.max(box[0][0], box[1][0]) &&
    points.y[i] >= Math.min(box[0][1], box[1][1]) &&
    points.y[i] <= Math.max(box[0][1], box[1][1]);
  const drawBox = (context) => {
    if (box === null) return;
    const { spot } = map.frame();
    const [[x0, y0], [x1, y1]] = box.map((corner) => spot(...corner));
    context.globalAlpha = 0.1;
    context.fillStyle = resolved("var(--accent)");
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
    context.globalAlpha = 1;
    context.strokeStyle = resolved("var(--accent)");
    context.lineWidth = 1.5;
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
  };

  const goTo = (i) => {
    pick(i);
    map.centreOn(i);
  };
  const showVertex = (vertex) => {
    const i = placeOf(vertex);
    if (i < 0) return;
    goTo(i);
    canvas.scrollIntoView({ block: "center" });
    canvas.focus({ preventScroll: true });
  };

  const listenToMap = () => {
    const { view, where, onMap, nearest } = map;
    let drag = null;
    const isSelecting = (event) => event.shiftKey || byId("select").getAttribute("aria-pressed") === "true";
    canvas.addEventListener("pointerdown", (event) => {
      drag = { at: where(event), x: view.x, y: view.y, moved: false, isBox: isSelecting(event) };
      if (view.zoom > 1 || drag.isBox) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = where(event);
      if (drag !== null && drag.isBox) {
        drag.moved = drag.moved || Math.hypot(at[0] - drag.at[0], at[1] - drag.at[1]) > 4;
        if (drag.moved) {
          box = [onMap(drag.at), onMap(at)];
          redraw();
        }
      } else if (drag !== null && view.zoom > 1) {
        map.moveFrom(drag, at);
        drag.moved = drag.moved || Math.hypot(at[0] - drag.at[0], at[1] - drag.at[1]) > 4;
      } else pick(nearest(...at, 14));
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag !== null && drag.isBox) selectBox(drag.moved ? [onMap(drag.at), onMap(where(event))] : null);
      const i = drag !== null && !drag.moved && !drag.isBox ? nearest(...where(event), 14) : null;
      if (i !== null && event.pointerType === "mouse") choose(points.cluster[i]);
      else if (i !== null) pick(i);
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => {
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
      drag = null;
      if (document.activeElement !== canvas) pick(null);
    });
    canvas.addEventListener("keydown", (event) => {
      if (map.obey(event.key, current, goTo)) event.preventDefault();
      if (event.key !== "Enter" || current === null) return;
      choose(points.cluster[current]);
      event.preventDefault();
    });
    byId("edges").addEventListener("change", redraw);
    byId("select").addEventListener("click", () => {
      const isOn = byId("select").getAttribute("aria-pressed") !== "true";
      byId("select").setAttribute("aria-pressed", String(isOn));
      canvas.classList.toggle("is-selecting", isOn);
      if (!isOn && box !== null) selectBox(null);
    });
    map.listenToZoom();
  };

  const LISTED = 60;
  let found = []; // the points that were asked for: by a word, else by the rectangle and the chosen cluster
  const matches = (wanted) => {
    // a word in the name of a point, or in a text of its row
    const hits = columns
      .filter((column) => column.kind !== "number")
      .map(({ words, values }) => ({ values, has: words.map((word) => word.toLowerCase().includes(wanted)) }));
    return (i) =>
      pointName(i).toLowerCase().includes(wanted) ||
      (drawnAt[i] >= 0 && hits.some(({ values, has }) => has[values[drawnAt[i]]]));
  };
  const listPoints = () => {
    const wanted = byId("find").value.trim().toLowerCase();
    const isAsked = wanted !== "";
    const isIn = isAsked
      ? matches(wanted)
      : (i) => (chosen === null || points.cluster[i] === chosen) && (box === null || isInBox(i));
    found = [];
    for (let i = 0; i < points.n; i++) if (isIn(i)) found.push(i);
    const isExact = (i) => isAsked && pointName(i).toLowerCase().replace(/^#/, "") === wanted.replace(/^#/, "");
    const listed = found
      .map((i) => [isExact(i) ? -1 : points.confidence[i], i])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1])
      .slice(0, LISTED)
      .map(([, i]) => i);
    const rows = listed.map((i) => {
      const button = el("button", { type: "button", class: "link" }, pointName(i));
      button.addEventListener("click", () => goTo(i));
      button.addEventListener("focus", () => goTo(i));
      return el(
        "tr",
        {},
        cell(button),
        cell(named(points.cluster[i]), { class: "text" }),
        cell(fixed(points.confidence[i] / 65535)),
      );
    });
    byId("points").replaceChildren(table([["Point"], [Noun, "text"], ["Confidence"]], rows));
    forgetGone();
    sayers = sayers.filter(({ node }) => node !== byId("found"));
    says(byId("found"), "text", () => {
      const of = chosen === null ? "" : ` of ${noun} ${clusters[chosen].name}`;
      const where = isAsked ? " found among all" : `${of}${box === null ? "" : " in the rectangle"}`;
      const least = `; the ${count(listed.length)} least certain are listed.`;
      const order = found.length > listed.length ? least : found.length > 1 ? ", the least certain first." : ".";
      return `${counted(found.length, "point")}${where}${order}`;
    });
    const these = found.length === 1 ? "this point" : `these ${counted(found.length, "point")}`;
    byId("export").textContent = `Download ${these} as CSV`;
    byId("export").disabled = found.length === 0;
  };

  const startMap = () => {
    const unlisted = points.n < summary.n_points ? " and can be found" : "; all of them can be found by name";
    const thinned =
      drawn.length < summary.n_points
        ? ` ${count(drawn.length)} of ${count(summary.n_points)} points are drawn, chosen at random${unlisted}.`
        : "";
    const how = data.map.is_given
      ? "Each point lies at the coordinates that were given."
      : `Points lie near the points they are connected to. The layout sees the graph only, not the ${nouns}: where colours and ` +
        `islands agree, the ${nouns} follow the graph. Distances between islands mean little.`;
    byId("map-caption").textContent =
      `${how}${thinned} Click a point to highlight its ${noun}; drag with Select, or with the shift key, to select ` +
      "points.";
    const what = `${counted(drawn.length, "point")} in ${counted(clusters.length, noun, nouns)}`;
    canvas.setAttribute("aria-label", `Map of ${what}`);
    listenToMap();
    byId("find").addEventListener("input", listPoints);
    byId("export").addEventListener("click", exportPoints);
    byId("save").addEventListener("click", savePage);
    listeners.push(redraw, listPoints);
    listPoints();
    redraw();
  };

  // ---------------------------------------------------------------- curves

  const path = (xs, ys) => xs.map((x, k) => `${k ? "L" : "M"}${x.toFixed(1)} ${ys[k].toFixed(1)}`).join("");

  const drawCertainty = () => {
    const [width, height, gap] = [160, 72, 2];
    const figures = shown.map((r, i) => {
      const { counts } = data.certainty[i];
      const tall = Math.max(...counts, 1);
      const wide = width / counts.length;
      const bars = counts.map((n, k) => {
        const high = n ? Math.max((n / tall) * height, 1) : 0;
        return svg("rect", { class: "area", x: k * wide + gap / 2, y: height - high, width: wide - gap, height: high });
      });
      const drawing = svg(
        "svg",
        { viewBox: `0 0 ${width} ${height + 16}`, role: "img" },
        ...bars,
        svg("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height }),
        svg("text", { x: 0, y: height + 14 }, "0"),
        svg("text", { x: width, y: height + 14, "text-anchor": "end" }, "1"),
      );
      says(drawing, "aria-label", () => `Confidence in ${noun} ${clusters[r].name}; the table below has the numbers`);
      const mean = clusters[r].size ? `mean ${fixed(clusters[r].confidence)}` : "empty";
      return marked(el("figure", {}, el("figcaption", {}, named(r), el("span", {}, mean)), drawing), r);
    });
    byId("histograms").replaceChildren(...figures);
    const rows = shown.map((r, i) =>
      marked(
        el(
          "tr",
          {},
          el("th", { scope: "row" }, named(r)),
          cell(count(clusters[r].size)),
          cell(clusters[r].size ? fixed(clusters[r].confidence) : "empty"),
          cell(count(data.certainty[i].doubtful)),
          ...data.certainty[i].counts.map((n) => cell(count(n))),
        ),
        r,
      ),
    );
    const tenths = data.certainty.length ? data.certainty[0].counts.map((_, k) => [`from ${(k / 10).toFixed(1)}`]) : [];
    const heads = [[Noun], ["Points"], ["Mean"], [`Below ${fixed(summary.doubtful_below)}`], ...tenths];
    byId("histograms-table").replaceChildren(table(heads, rows));
  };

  const ticks = (low, high, most) => {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((k) => k * power >= rough) * power;
    const first = Math.ceil(low / step - 1e-9);
    const found = [];
    for (let k = first; k * step <= high + 1e-9 * step && found.length < 20; k++) found.push(k * step + 0); // never −0
    return found;
  };

  const drawHistory = () => {
    const steps = data.history;
    const said = summary.status; // a sentence
    if (steps.length < 2) {
      byId("run-caption").textContent = `There was nothing to iterate on. ${said}`;
      byId("history").remove();
      byId("history-details").remove();
      return;
    }
    byId("run-caption").textContent =
      `The method works on a smooth energy of soft memberships (grey); what counts is the energy of the rounded ${nouns} (blue). The ` +
      `dashed line is the answer, the best partition seen, ${number(summary.energy)}; a search before and after these ` +
      `${counted(summary.n_iter, "iteration")} may have found it. ${said}`;
    const paint = () =>
      byId("history").replaceChildren(historyPicture(steps, Math.max(byId("history").clientWidth, 280)));
    new ResizeObserver(paint).observe(byId("run-caption"));
    const rows = steps.map((step) =>
      el("tr", {}, cell(count(step.iterations)), cell(number(step.relaxed, 6)), cell(number(step.energy, 6))),
    );
    byId("history-table").append(table([["Iterations"], ["Smooth energy"], [`Energy of the rounded ${nouns}`]], rows));
  };
  const historyPicture = (steps, width) => {
    const hard = steps.filter((step) => step.energy !== null);
    const soft = steps.filter((step) => step.relaxed !== null);
    const values = [
      ...hard.map((step) => step.energy),
      ...soft.map((step) => step.relaxed),
      summary.energy ?? NaN,
    ].filter(Number.isFinite);
    // A start far above all that follows would leave one flat line of the rest: it is cut off, and told as a number.
    const later = [...hard.slice(1).map((step) => step.energy), ...soft.slice(1).map((step) => step.relaxed)];
    const peak = Math.max(...later, summary.energy ?? -Infinity);
    const [lowest, highest] = [Math.min(...values), Math.max(...values)];
    const isCutOff = peak > lowest && highest - lowest > 4 * (peak - lowest);
    const range = (isCutOff ? peak : highest) - lowest;
    const room = range * 0.08 || Math.abs(values[0]) * 0.05 || 1;
    const [low, high] = [lowest - room, lowest + range + room];
    const [height, left, right, top, bottom] = [width < 600 ? 260 : 340, 56, 64, 28, 44];
    const last = Math.max(steps[steps.length - 1].iterations, 1);
    const x = (iterations) => left + (iterations / last) * (width - left - right);
    const y = (energy) => top + ((high - Math.min(energy, high)) / (high - low)) * (height - bottom - top);
    const picture = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Energy over iterations; the table below has the numbers",
    });
    for (const tick of ticks(low, high, 5)) {
      picture.append(
        svg("line", { class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: left - 10, y: y(tick) + 4, "text-anchor": "end" }, number(tick)),
      );
    }
    for (const tick of ticks(0, last, width < 600 ? 4 : 8)) {
      picture.append(svg("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, count(tick)));
    }
    picture.append(svg("text", { x: 0, y: 12 }, `energy (${weightUnit} cut per point)`));
    picture.append(
      svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "iterations"),
    );
    if (isCutOff)
      picture.append(svg("text", { x: left + 8, y: top + 4, class: "soft" }, `from ${number(highest)}`));
    if (summary.energy !== null)
      picture.append(
        svg("line", { class: "guide", x1: left, x2: width - right, y1: y(summary.energy), y2: y(summary.energy) }),
      );
    for (const [few, key, kind] of [
      [soft, "relaxed", "soft"],
      [hard, "energy", "hard"],
    ]) {
      picture.append(
        svg("path", {
          class: `curve ${kind}`,
          d: path(
            few.map((step) => x(step.iterations)),
            few.map((step) => y(step[key])),
          ),
        }),
      );
    }
    labelEnds(
      picture,
      [
        [soft, "relaxed", "soft", "smooth"],
        [hard, "energy", "hard", "rounded"],
      ],
      width - right + 8,
      y,
    );
    return picture;
  };
  const labelEnds = (picture, curves, x, y) => {
    // names at the ends of the curves, pushed apart if they meet
    const ends = curves
      .filter(([few]) => few.length)
      .map(([few, key, kind, text]) => ({ at: y(few[few.length - 1][key]), kind, text }));
    ends.sort((a, b) => a.at - b.at);
    if (ends.length === 2 && ends[1].at - ends[0].at < 16) {
      const middle = (ends[0].at + ends[1].at) / 2;
      [ends[0].at, ends[1].at] = [middle - 8, middle + 8];
    }
    for (const end of ends) picture.append(svg("text", { x, y: end.at + 4, class: end.kind }, end.text));
  };

  // ---------------------------------------------------------------- the graph, and how to run it again

  const text = (value) => (value === null ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const drawFindings = () => {
    const measure = ([name, value]) => `${name.replace(/^n_/, "").replaceAll("_", " ")} ${number(value)}`;
    byId("findings").append(
      ...data.findings.map((finding) =>
        el(
          "li",
          {},
          el("h3", {}, finding.name, finding.severity === "warning" ? el("b", {}, "Warning") : null),
          el(
            "div",
            {},
            el("p", {}, finding.meaning),
            finding.advice ? el("p", { class: "advice" }, finding.advice) : null,
            Object.keys(finding.value).length
              ? el("p", { class: "measured" }, Object.entries(finding.value).map(measure).join(" · "))
              : null,
          ),
        ),
      ),
    );
  };
  const drawAgain = () => {
    const facts = (entries) => entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, text(value))]);
    const { versions, machine, commit, created } = data.circumstances;
    byId("settings").append(...facts(Object.entries(data.settings)));
    byId("versions").append(
      ...facts([
        ...Object.entries(versions),
        ...Object.entries(machine),
        ...(commit ? [["commit", commit]] : []),
        ["written", created],
      ]),
    );
    byId("settings-json").textContent = JSON.stringify({ settings: data.settings, ...data.circumstances }, null, 2);
  };

  // ---------------------------------------------------------------- light and dark

  const startTheme = () => {
    const root = document.documentElement;
    let before;
    addEventListener("beforeprint", () => {
      before = root.dataset.theme;
      root.dataset.theme = "light";
      drawMap();
    });
    addEventListener("afterprint", () => {
      if (before) root.dataset.theme = before;
      else delete root.dataset.theme;
      drawMap();
    });
    themeButton(byId("theme"), redraw);
  };

  listenToLegend();
  drawLegend();
  drawHead();
  startColours();
  startCross();
  drawClusters();
  drawBetween();
  drawCross();
  drawExamples();
  drawDoubtful();
  drawCertainty();
  startMap();
  drawHistory();
  drawFindings();
  drawAgain();
  startTheme();
})();
