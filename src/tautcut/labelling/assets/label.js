"use strict";
// The labelling page. A key press is taken at once: the answer joins a queue, and the next question, which is already
// here, is shown. The queue is sent in order; an answer is called saved only once the server has acknowledged it, and
// what could not be sent is kept and sent again under the same id, which the server counts once.
(() => {
  const { byId, el, count, counted, percent, COLOURS, SHAPES, markOf, themeButton, resolved, mapOn } = tautcut;

  const AHEAD = 2; // questions kept ready, so that neither an answer nor a short outage leaves the page empty
  const PATIENCE = 20000; // milliseconds until a request counts as lost
  const LONGEST_PAUSE = 5000; // between two tries, in milliseconds
  const RECENT = 5; // answers that are listed
  const MANY_CLASSES = 9; // beyond these, classes can be filtered by name
  const LONGEST_NAME = 200; // of a class, in characters
  const SHOWN_VALUES = 200; // columns of a thing that are listed
  const FEW_VALUES = 8; // that stand one below another
  const MOST_ENLARGED = 30; // times, of a picture
  const NAME_ABOVE = 16; // pixels from the middle of a class to its name on the map, which hides no badge there
  const FEW_BADGES = 150; // labelled points that are drawn as letters; more would hide the map

  // ---------------------------------------------------------------- words

  // A name is shown on one line, with what would break it made visible.
  const visible = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (c) => (c === "\n" ? "⏎" : "�"));
  const quoted = (text) => `“\u2068${visible(text)}\u2069”`; // isolated: a name's direction ends with it
  const bdi = (text, kind = "name") => el("bdi", { class: kind, title: visible(text) }, visible(text));
  const kbd = (text) => el("kbd", {}, text);
  const say = (text) => {
    const node = byId("said");
    node.textContent = node.textContent === text ? `${text}\u00a0` : text; // the same words are news again
  };
  const unique = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

  // ---------------------------------------------------------------- what the page knows

  let state = null; // as the server told it last
  let current = null; // the question on show
  let wanted = []; // questions that were asked for: undone, reviewed, chosen on the map
  let ahead = []; // questions that the server proposed
  let ended = null; // why there is no further question
  let isGrid = false;
  let selected = new Set(); // things of the grid that are in
  let isHeld = false; // an undo is under way, and what it brings back is not known yet
  let coming = []; // names of classes that the server has not listed yet
  let revision = 0; // the last one that this tab made or saw
  let nForeign = 0; // how often others were seen to have answered meanwhile
  const entries = []; // answers of this tab, the latest last
  const answered = new Map(); // thing → how many answers this tab had given then
  let lastAnswer = -Infinity;

  const isKept = () => current !== null && current.thing.label !== null; // it has a label, which can stay
  const isTiled = () => isGrid && current !== null && !current.is_check && !isKept() && tiles().length > 1;
  const tiles = () => [current.thing, ...current.similar.filter((thing) => !answered.has(thing.index))];
  const guessOf = ({ thing, is_check: isCheck }) =>
    isCheck || thing.guess === null || thing.guess.class === thing.label ? null : thing.guess;

  // ---------------------------------------------------------------- the server, and answers on their way to it

  class Refused extends Error {
    constructor(status, sentence) {
      super(sentence);
      this.status = status;
    }
    get isFinal() {
      return this.status < 500 && ![403, 408, 421, 429].includes(this.status);
    }
  }
  const talk = async (path, body) => {
    const options = { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
    if (body !== undefined) {
      options.method = "POST";
      options.headers = { "Content-Type": "application/json" };
      options.body = JSON.stringify(body);
    }
    const reply = await fetch(path, options);
    if (reply.ok) return reply.json();
    const { error } = await reply.json().catch(() => ({}));
    throw new Refused(reply.status, error ?? `The server answered ${reply.status}.`);
  };

  let trouble = null; // a sentence
  let tryNow = () => {};
  const heard = () => {
    if (trouble === null) return;
    trouble = null;
    drawTrouble();
    say("The server is back.");
    fetchAhead();
  };
  const missed = (error) => {
    const kept = queue.length ? "Your answers are kept here and sent again by themselves; leave this page open." : "";
    const before = trouble;
    if (!(error instanceof Refused)) trouble = `The server does not answer. ${kept || "It may have been stopped."}`;
    else if (error.status === 403)
      trouble = `The server was started again and knows this page no more: open the address that it printed. ${kept}`;
    else trouble = `${error.message} ${kept}`;
    drawTrouble();
    if (before === null) say(trouble);
  };
  const drawTrouble = () => {
    const node = byId("trouble");
    node.hidden = trouble === null;
    if (trouble === null) return;
    const again = el("button", { type: "button", class: "quiet" }, "Try now");
    again.addEventListener("click", () => {
      tryNow();
      poll();
    });
    node.replaceChildren(trouble, again);
  };

  const queue = [];
  let isSending = false;
  const keptAs = () => `tautcut ${state.title} ${state.n_things}`; // another set of things never gets these answers
  const keep = () => {
    try {
      if (!queue.length) sessionStorage.removeItem(keptAs());
      else sessionStorage.setItem(keptAs(), JSON.stringify(queue.map(({ id, kind, path, body }) => ({ id, kind, path, body }))));
    } catch {
      // a browser that stores nothing: the queue lives as long as the page, which asks before it is left
    }
  };
  const restore = () => {
    let kept = [];
    try {
      kept = JSON.parse(sessionStorage.getItem(keptAs()) ?? "[]");
    } catch {
      return;
    }
    for (const job of kept) queue.push({ ...job, entry: null, isTried: true });
    if (kept.length) say(`${counted(kept.length, "answer")} from before the page was loaded again will be sent.`);
  };
  const enqueue = (kind, path, body, extra = {}) => {
    const id = unique();
    queue.push({ id, kind, path, body: { id, ...body }, isTried: false, entry: null, ...extra });
    keep();
    drawSaved();
    send();
  };
  const send = async () => {
    if (isSending) return;
    isSending = true;
    let pause = 250;
    while (queue.length) {
      const job = queue[0];
      job.isTried = true;
      try {
        const skip = [...taken()].join(",");
        const reply = await talk(job.kind === "answer" ? `${job.path}?skip=${skip}` : job.path, job.body);
        queue.shift();
        keep();
        pause = 250;
        accept(job, reply);
        heard();
      } catch (error) {
        if (error instanceof Refused && error.isFinal) {
          queue.shift();
          keep();
          refuse(job, error);
        } else {
          missed(error);
          drawSaved();
          await new Promise((done) => {
            tryNow = done;
            setTimeout(done, pause);
          });
          pause = Math.min(2 * pause, LONGEST_PAUSE);
        }
      }
    }
    isSending = false;
    renew();
    drawSaved();
    pollSoon(0);
  };
  const accept = (job, reply) => {
    if (reply.revision > revision + 1) nForeign += 1;
    revision = Math.max(revision, reply.revision);
    if (job.entry !== null) job.entry.status = "saved";
    ended = null;
    if (job.kind === "undo") acceptUndo(job, reply);
    else if (reply.question) propose(reply.question, { isFirst: true });
    drawSaved();
    if (current === null) advance();
    fetchAhead();
  };
  const refuse = (job, error) => {
    if (job.kind === "undo") {
      isHeld = false;
      say(error.message);
    } else {
      if (job.entry !== null) {
        job.entry.status = "refused";
        for (const { index } of job.entry.things) answered.delete(index);
        bring(job.entry.question);
      }
      coming = coming.filter((name) => name !== job.body.label && name !== job.body.name);
      notice(`Not saved: ${error.message}`);
      say(`Not saved: ${error.message}`);
      drawClasses();
    }
    drawSaved();
  };

  // ---------------------------------------------------------------- other tabs

  // Tabs tell each other what they show, so that each asks its own questions.
  const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("tautcut");
  const me = unique();
  const others = new Map(); // tab → what it shows, and when it said so
  const STALE = 90000; // milliseconds: a tab that was ended by force says no farewell
  const tellTabs = (shows = mine(), isNew = false) => tabs?.postMessage({ tab: me, shows: [...shows], isNew });
  const listenToTabs = () => {
    tabs?.addEventListener("message", ({ data }) => {
      others.set(data.tab, { shows: data.shows, at: Date.now() });
      if (data.isNew) tellTabs();
    });
    addEventListener("pagehide", () => tellTabs([]));
    tellTabs([], true);
  };

  // ---------------------------------------------------------------- questions

  const mine = () => new Set([current, ...wanted, ...ahead].filter(Boolean).map((question) => question.thing.index));
  const taken = () => {
    const all = mine();
    for (const { body } of queue) for (const index of body.things ?? []) all.add(index);
    for (const { shows, at } of others.values()) if (Date.now() - at < STALE) for (const index of shows) all.add(index);
    return all;
  };
  // A question of the server joins those that are ready, unless it has been dealt with since it was asked for. One that
  // came with an answer knows more than those before it, and is asked first.
  const propose = (question, { since = Infinity, isFirst = false } = {}) => {
    if (question.thing === null) {
      ended = question.why;
      return;
    }
    const { index } = question.thing;
    if (taken().has(index) || (answered.get(index) ?? -1) > since) return;
    // One check in five questions: the server does not know that one is on show or ready already.
    if (question.is_check && [current, ...ahead].some((one) => one?.is_check)) return;
    question.nForeign = nForeign;
    ahead = isFirst ? [question, ...ahead].slice(0, AHEAD) : [...ahead, question];
    for (const thing of [question.thing, ...(isGrid ? question.similar : [])]) {
      if (thing.image !== null) new Image().src = thing.image;
    }
  };
  let isFetching = false;
  const fetchAhead = async () => {
    if (isFetching || state === null || ahead.length >= AHEAD) return;
    isFetching = true;
    const before = ahead.length;
    try {
      const since = entries.length;
      propose(await talk(`/api/question?skip=${[...taken()].join(",")}`), { since });
      heard();
    } catch (error) {
      missed(error);
    }
    isFetching = false;
    if (current === null) advance();
    if (current === null && ended === null) setTimeout(fetchAhead, 500);
    else if (ahead.length > before) fetchAhead();
  };

  // While someone looks at a question the server learns from the answer before it: what comes next is asked for anew.
  const renew = async () => {
    const [since, known] = [entries.length, revision];
    const ready = new Set(ahead.map(({ thing }) => thing.index));
    const shown = [...taken()].filter((index) => !ready.has(index));
    const question = await talk(`/api/question?patient=1&skip=${shown.join(",")}`).catch(() => null);
    if (question === null || entries.length !== since) return;
    if (question.thing !== null) {
      ahead = ahead.filter(({ thing }) => thing.index !== question.thing.index);
      propose(question, { since, isFirst: true });
      if (current === null) advance();
    }
    byId("question").dataset.knows = known; // the answers by which the next question was chosen
    fetchAhead();
  };
  const advance = () => {
    current = wanted.shift() ?? ahead.shift() ?? null;
    startQuestion();
    fetchAhead();
  };
  const bring = (question) => {
    // shows this one now, and what was on show after it
    if (current !== null) wanted.unshift(current);
    current = question;
    startQuestion();
  };
  const startQuestion = () => {
    notice(null);
    if (current !== null) selected = new Set(tiles().filter((thing) => thing.label === null).map((thing) => thing.index));
    tellTabs();
    drawQuestion();
    redraw();
    if (current !== null && (current.nForeign ?? nForeign) < nForeign) lookAgain();
  };
  const asked = () => {
    if (current === null) return "";
    const guess = guessOf(current);
    const what = isTiled() ? `${counted(selected.size, "similar thing")}` : visible(current.thing.name);
    const check = current.is_check ? " Random check." : "";
    return `${what}.${check}${guess === null ? "" : ` Proposed: ${visible(guess.class)}.`}`;
  };

  const answer = (label) => {
    if (current === null) return say("There is no question on show.");
    if (isHeld) return say("One moment: the last answer is being undone.");
    const isSkipped = label === null;
    const things = isTiled() && !isSkipped ? tiles().filter((thing) => selected.has(thing.index)) : [current.thing];
    if (!things.length) return say("Nothing is selected: space or a click takes things in.");
    const question = current;
    const entry = { label, things, question, status: "waiting" };
    entries.push(entry);
    for (const { index } of things) answered.set(index, entries.length);
    if (!isSkipped) welcome(label);
    lastAnswer = performance.now();
    const body = { things: things.map((thing) => thing.index), label, is_check: question.is_check };
    const before = isSkipped ? "Skipped" : `${visible(label)}${things.length > 1 ? `, ${things.length} things` : ""}`;
    advance();
    enqueue("answer", "/api/answers", isSkipped ? { ...body, skip: true } : body, { entry });
    say(`${before}. ${current === null ? "" : `Next: ${asked()}`}`);
  };
  const skip = () => {
    if (!isKept()) return answer(null);
    say("Kept.");
    advance();
  };
  const acceptGuess = () => {
    const guess = current === null ? null : guessOf(current);
    if (guess === null) say("There is no proposal: press the key of a class.");
    else {
      flash(guess.class);
      answer(guess.class);
    }
  };

  const undo = () => {
    const last = entries.findLast(({ status }) => status === "waiting" || status === "saved");
    const job = queue.at(-1);
    if (isHeld) return;
    if (last === undefined && !state?.can_undo) return say("There is nothing to undo.");
    if (last !== undefined) {
      last.status = "undone";
      for (const { index } of last.things) answered.delete(index);
      if (job?.entry === last && !job.isTried) {
        queue.pop();
        keep();
      } else enqueue("undo", "/api/undo", {}, { undoes: last });
      bring(last.question);
      say(`Undone. ${asked()}`);
    } else {
      isHeld = true;
      enqueue("undo", "/api/undo", {});
    }
    drawSaved();
  };
  const acceptUndo = ({ undoes = null }, { question }) => {
    isHeld = false;
    if (!question?.thing) return;
    const { index } = question.thing;
    answered.delete(index);
    const expected = undoes?.question.thing.index;
    if (index === expected) return;
    if (undoes !== null) {
      // another tab's answer was the last: this one's stands
      undoes.status = "saved";
      for (const thing of undoes.things) answered.set(thing.index, entries.length);
    }
    const isOther = ({ thing }) => thing.index !== index && thing.index !== expected;
    [wanted, ahead] = [wanted.filter(isOther), ahead.filter(isOther)];
    if (current !== null && !isOther(current)) current = null;
    bring(question);
    if (undoes !== null) notice("The last answer was given in another tab: it is the one that was undone.");
    say(`Undone. ${asked()}`);
  };

  const fetchThing = async (index) => {
    const { thing, similar } = await talk(`/api/things/${index}`);
    return { thing, similar, is_check: false, why: "" };
  };
  const askFor = async (indices, why) => {
    // these next, then what was on show
    try {
      const questions = await Promise.all(indices.map(fetchThing));
      const isNew = ({ thing }) => !indices.includes(thing.index);
      ahead = ahead.filter(isNew);
      wanted = [...questions.map((question) => ({ ...question, why: why(question.thing), isAskedFor: true })), ...wanted.filter(isNew)];
      if (current !== null && isNew(current)) wanted.push(current);
      advance();
      focusQuestion();
      say(`${byId("asked").textContent} ${asked()}`);
    } catch (error) {
      if (error instanceof Refused && error.isFinal) notice(error.message);
      else missed(error);
    }
  };
  const review = () => {
    const doubts = state?.suspicious ?? [];
    if (!doubts.length) return say("No label is contradicted by its neighbours.");
    const of = new Map(doubts.map((doubt) => [doubt.index, doubt]));
    askFor([...of.keys()], (thing) => {
      const { label, guess } = of.get(thing.index);
      thing.guess = { class: guess, confidence: null };
      return `Under review: the label is ${quoted(label)}, things like it are ${quoted(guess)}.`;
    });
  };
  const decide = () => {
    const things = state?.disagreement?.things ?? [];
    if (things.length) askFor(things, () => "Its label decides between your labels and the clusters of the graph.");
  };
  const leaveList = () => {
    if (!current?.isAskedFor) return;
    wanted = wanted.filter((question) => !question.isAskedFor);
    advance();
    say(`Back. ${asked()}`);
  };

  // ---------------------------------------------------------------- the question, drawn

  const words = (text, kind = "") => {
    const isShort = text.length < 90 && !text.includes("\n");
    return el("p", { class: `words ${isShort ? "is-short" : ""} ${kind}`, dir: "auto" }, text);
  };
  const face = (thing) => {
    const box = el("div", { class: "face" });
    if (thing.image !== null) {
      const picture = el("img", { alt: `Picture ${visible(thing.name)}`, draggable: "false" });
      picture.addEventListener("load", () => {
        // a picture of few pixels is easier to read when it is not blown up
        picture.style.maxWidth = `${MOST_ENLARGED * picture.naturalWidth}px`;
        picture.style.maxHeight = `${MOST_ENLARGED * picture.naturalHeight}px`;
      });
      picture.addEventListener("error", () => picture.replaceWith(words("This picture cannot be shown.", "is-note")));
      picture.src = thing.image;
      box.append(picture);
    }
    if (thing.text !== null) box.append(words(thing.text, state.kind === "image" ? "is-note" : ""));
    // The column of texts is there already.
    const values = (thing.values ?? []).filter(([, value]) => !value || !thing.text?.startsWith(value));
    if (values.length) {
      const rows = values.slice(0, SHOWN_VALUES).map(([column, value]) =>
        el("div", {}, el("dt", {}, bdi(String(column), "")), el("dd", {}, bdi(String(value ?? "missing"), ""))),
      );
      const rest = values.length - rows.length;
      if (rest > 0) rows.push(el("div", {}, el("dt", {}, `and ${counted(rest, "further column")}`)));
      box.append(el("dl", { class: `values${values.length <= FEW_VALUES ? " is-few" : ""}` }, ...rows));
    }
    if (!box.children.length) box.append(words(visible(thing.name)));
    return box;
  };
  const nameLine = (thing) => el("p", { class: "thing-name", dir: "auto", title: visible(thing.name) }, visible(thing.name));
  const labelLine = (thing) => (thing.label === null ? null : el("p", { class: "thing-name" }, "labelled ", bdi(thing.label)));

  const hasFace = (thing) => thing.image !== null || thing.text !== null || thing.values !== null; // or its name is all
  const single = () => {
    const { thing, similar } = current;
    const nodes = [face(thing)];
    if (hasFace(thing)) nodes.push(nameLine(thing));
    else if (similar.length) {
      // a name alone says little: what it is linked with says more
      const line = el("p", { class: "beside" }, "Linked with ");
      similar.forEach((one, k) => line.append(k ? ", " : "", bdi(one.name, ""), one.label === null ? "" : ` (${quoted(one.label)})`));
      nodes.push(line);
    }
    return nodes;
  };
  const tiled = () =>
    tiles().map((thing, k) => {
      const said = `${visible(thing.name)}${thing.label === null ? "" : `, labelled ${visible(thing.label)}`}`;
      const tile = el(
        "button",
        { type: "button", class: `tile${k ? "" : " is-asked"}`, role: "checkbox", "aria-label": said, tabindex: k ? "-1" : "0" },
        face(thing),
        labelLine(thing) ?? (hasFace(thing) ? nameLine(thing) : null),
      );
      tile.dataset.index = thing.index;
      tile.setAttribute("aria-checked", String(selected.has(thing.index)));
      tile.addEventListener("click", () => toggle(thing.index));
      tile.addEventListener("focus", () => {
        for (const node of byId("stage").querySelectorAll(".tile")) node.tabIndex = node === tile ? 0 : -1;
      });
      return tile;
    });
  const toggle = (index) => {
    if (!selected.delete(index)) selected.add(index);
    showSelection();
  };
  const selectAll = (isIn) => {
    selected = new Set(isIn ? tiles().map((thing) => thing.index) : []);
    showSelection();
    say(isIn ? "All are in." : "None is in.");
  };
  const showSelection = () => {
    for (const node of byId("stage").querySelectorAll(".tile"))
      node.setAttribute("aria-checked", String(selected.has(Number(node.dataset.index))));
    drawActs();
  };
  const moveTile = (key) => {
    const all = [...byId("stage").querySelectorAll(".tile")];
    const at = all.indexOf(document.activeElement);
    const across = all.filter((node) => node.offsetTop === all[0].offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[key];
    const to = at < 0 ? 0 : at + step;
    all[to]?.focus();
  };

  const heading = () => {
    if (current === null) return ended === null ? "One moment" : "That is all";
    if (isKept()) return "Is this right?";
    return isTiled() ? "Are these the same?" : "What is this?";
  };
  const focusQuestion = () => byId("question").focus({ preventScroll: true });
  const drawQuestion = () => {
    const stage = byId("stage");
    const hadFocus = stage.contains(document.activeElement);
    byId("asked").textContent = heading();
    const why = byId("why");
    why.replaceChildren();
    stage.classList.toggle("is-grid", isTiled());
    if (current === null) {
      const text = ended ?? (state === null ? "The things are being read." : "The next question is being chosen.");
      stage.replaceChildren(el("div", { class: "ended" }, el("p", { class: "lead" }, text)));
    } else {
      if (current.is_check) why.append(el("span", { class: "tag" }, "random check"), "Drawn by chance, to estimate the accuracy.");
      else why.append(current.why || (isKept() ? `The label is ${quoted(current.thing.label)}.` : ""));
      stage.replaceChildren(...(isTiled() ? tiled() : single()));
      stage.scrollTop = 0;
    }
    if (hadFocus) focusQuestion();
    drawActs();
    drawGuess();
    // With no class there is nothing to press: the first name is asked for. A phone's keyboard stays down.
    if (current !== null && state.classes.length + coming.length === 0 && !matchMedia("(pointer: coarse)").matches)
      startNaming("There is no class yet: what is this one?");
  };
  const drawActs = () => {
    const guess = current === null ? null : guessOf(current);
    byId("accept").hidden = guess === null;
    if (guess !== null) {
      const verb = isTiled() ? `Label ${selected.size} as` : isKept() ? "Change to" : "Yes,";
      byId("accept").replaceChildren(verb, markFor(guess.class), bdi(guess.class), kbd("Enter"));
    }
    byId("skip").replaceChildren(isKept() ? "Keep it" : "Skip", kbd(isTiled() ? "s" : "Space"));
    byId("skip").disabled = byId("new").disabled = current === null;
    byId("undo").disabled = !(state?.can_undo || entries.some(({ status }) => status === "waiting" || status === "saved"));
    byId("grid").setAttribute("aria-pressed", String(isGrid));
    const doubts = state?.suspicious.length ?? 0;
    byId("review").disabled = doubts === 0;
    byId("review").replaceChildren(doubts ? `Review ${count(doubts)}` : "Review", kbd("r"));
  };
  const notice = (text) => {
    byId("notice").hidden = text === null;
    byId("notice").textContent = text ?? "";
  };

  // ---------------------------------------------------------------- classes

  const COMMANDS = new Set(["n", "s", "u", "g", "r", "m"]);
  const names = () => [...(state?.classes.map(({ name }) => name) ?? []), ...coming];
  const colourFor = (r) => `var(--c${r % COLOURS})`;
  const shapeFor = (r) => SHAPES[r % SHAPES.length];
  const markFor = (name) => {
    const r = names().indexOf(name);
    return r < 0 ? null : markOf(shapeFor(r), colourFor(r));
  };
  const keyFor = ({ key }) => (key === null || COMMANDS.has(key.toLowerCase()) ? null : key.toLowerCase());
  const classOfKey = (event) => {
    const key = event.key.toLowerCase();
    const digit = /^Digit[1-9]$/.test(event.code) ? event.code.slice(5) : null; // where digits need the shift key
    const find = (wantedKey) => state?.classes.find((one) => keyFor(one) === wantedKey)?.name;
    return find(key) ?? (digit === null || /^[a-z0-9?/+]$/.test(key) ? undefined : find(digit));
  };
  const welcome = (name) => {
    if (names().includes(name)) return;
    coming.push(name);
    drawClasses();
  };

  let drawnAs = "";
  const drawClasses = () => {
    const wantedText = byId("filter").value.trim().toLowerCase();
    const listed = [
      ...(state?.classes ?? []),
      ...coming.map((name) => ({ name, key: null, n_labelled: 0, n_predicted: null, isComing: true })),
    ].map((one, r) => ({ ...one, r }));
    byId("filter-field").hidden = listed.length <= MANY_CLASSES;
    const found = listed.filter(({ name }) => name.toLowerCase().includes(wantedText));
    byId("filter-note").textContent = wantedText === "" ? "" : `${counted(found.length, "class", "classes")} found`;
    const now = JSON.stringify(found.map(({ name, key, isComing }) => [name, key, isComing]));
    if (now !== drawnAs) {
      drawnAs = now;
      const focused = document.activeElement?.dataset?.name;
      byId("classes").replaceChildren(...found.map(classButton));
      if (focused !== undefined) [...byId("classes").children].find(({ dataset }) => dataset.name === focused)?.focus();
    }
    found.forEach(({ n_labelled, n_predicted, name, key }, k) => {
      const node = byId("classes").children[k];
      node.dataset.n = count(n_labelled);
      const predicted = n_predicted === null ? "" : `, ${count(n_predicted)} in all`;
      node.setAttribute("aria-label", `${visible(name)}${key === null ? "" : `, key ${key}`}, ${count(n_labelled)} labelled${predicted}`);
      node.title = `${visible(name)}: ${count(n_labelled)} labelled${predicted}`;
    });
    drawGuess();
  };
  const classButton = (one) => {
    const key = keyFor(one);
    const node = el(
      "button",
      { type: "button", class: `class${one.isComing ? " is-coming" : ""}` },
      key === null ? null : kbd(key),
      markOf(shapeFor(one.r), colourFor(one.r)),
      bdi(one.name),
      el("span", { class: "n" }),
    );
    node.style.setProperty("--mark", colourFor(one.r));
    node.dataset.name = one.name;
    if (key !== null) node.setAttribute("aria-keyshortcuts", key);
    node.addEventListener("click", (event) => {
      flash(one.name);
      answer(one.name);
      if (event.detail > 0) focusQuestion(); // or the space key would press this button again
    });
    for (const kind of ["pointerenter", "focus"]) node.addEventListener(kind, () => light(one.r));
    for (const kind of ["pointerleave", "blur"]) node.addEventListener(kind, () => light(null));
    return node;
  };
  const drawGuess = () => {
    const guess = current === null ? null : guessOf(current);
    for (const node of byId("classes").children) {
      const isGuess = guess !== null && node.dataset.name === guess.class;
      node.classList.toggle("is-guess", isGuess);
      node.querySelector(".n").textContent = isGuess && guess.confidence !== null ? percent(guess.confidence, 0) : node.dataset.n;
    }
  };
  const flash = (name) => {
    const node = [...byId("classes").children].find(({ dataset }) => dataset.name === name);
    node?.classList.add("is-pressed");
    setTimeout(() => node?.classList.remove("is-pressed"), 160);
  };

  const startNaming = (note = "") => {
    if (current === null) return;
    byId("making").hidden = false;
    byId("new-note").textContent = note;
    byId("new-name").focus({ preventScroll: note !== "" });
  };
  const endNaming = () => {
    byId("making").hidden = true;
    byId("new-name").value = "";
    byId("new-note").textContent = "";
    focusQuestion();
  };
  const newName = () => {
    const name = byId("new-name").value.trim().normalize("NFC"); // as the server writes it
    const length = [...name].length;
    let problem = "";
    if (length === 0) problem = "A class needs a name.";
    else if (length > LONGEST_NAME) problem = `A name has at most ${LONGEST_NAME} characters; this one has ${length}.`;
    else if (visible(name) !== name) problem = "A name is one line, without control characters.";
    byId("new-note").textContent = problem;
    return problem === "" ? name : null;
  };
  const listenToNaming = () => {
    byId("making").addEventListener("submit", (event) => {
      event.preventDefault();
      const name = newName();
      if (name === null) return;
      endNaming();
      answer(name);
    });
    byId("new-only").addEventListener("click", () => {
      const name = newName();
      if (name === null) return;
      endNaming();
      if (names().includes(name)) return say(`There is a class ${quoted(name)} already.`);
      welcome(name);
      enqueue("class", "/api/classes", { name });
      say(`New class ${quoted(name)}.`);
    });
    byId("new-cancel").addEventListener("click", endNaming);
    byId("making").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      endNaming();
    });
    const filter = byId("filter");
    filter.addEventListener("input", drawClasses);
    filter.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      const first = byId("classes").firstElementChild;
      const isFound = event.key === "Enter" && filter.value.trim() !== "" && first !== null;
      const name = first?.dataset.name;
      filter.value = "";
      drawClasses();
      focusQuestion();
      if (isFound) answer(name);
    });
  };

  // ---------------------------------------------------------------- what is known, drawn

  const drawSaved = () => {
    const waiting = queue.length;
    byId("saved").classList.toggle("is-waiting", trouble !== null && waiting > 0);
    byId("saved").textContent = waiting ? `${counted(waiting, "answer")} not saved yet` : state?.revision || revision ? "All saved" : "";
    const marks = { waiting: "…", saved: "✓", refused: "not saved", undone: "undone" };
    const listed = entries.slice(-RECENT).reverse();
    byId("recent").replaceChildren(
      ...listed.map(({ label, things, status }) => {
        const name = things.length > 1 ? `${counted(things.length, "thing")}` : things[0].name;
        const said = status === "waiting" ? "waiting" : status;
        return el(
          "li",
          { class: `is-${status}`, title: said },
          el("span", { role: "img", "aria-label": said }, marks[status]),
          bdi(name),
          label === null ? el("span", {}, "skipped") : el("span", { class: "named" }, markFor(label), bdi(label)),
        );
      }),
    );
    drawActs();
  };
  const drawKnown = () => {
    const { fit, disagreement } = state;
    document.title = `${visible(state.title)} · tautcut`;
    byId("title").textContent = visible(state.title);
    const skipped = state.n_skipped ? `, ${count(state.n_skipped)} skipped` : "";
    byId("progress").textContent = `${count(state.n_labelled)} of ${counted(state.n_things, "thing")} labelled${skipped}`;
    const { accuracy } = fit;
    byId("range").hidden = accuracy === null;
    if (accuracy === null) byId("accuracy").textContent = fit.revision === null ? "Known after the first classification." : "Not known yet.";
    else {
      const checks = accuracy.n_checked ? ` and ${counted(accuracy.n_checked, "random check")}` : "";
      byId("accuracy").replaceChildren(
        el("b", {}, percent(accuracy.value, 0)),
        `of the things without a label are probably classified right, between ${percent(accuracy.low, 0)} and ${percent(accuracy.high, 0)}; ` +
          `by confidence${checks}.`,
      );
      for (const key of ["low", "high", "value"]) byId("range").style.setProperty(`--${key}`, accuracy[key]);
    }
    byId("advice").textContent = fit.advice ?? "";
    byId("fit").textContent = fitSentence();
    byId("fit").classList.toggle("is-problem", fit.problem !== null);
    byId("notes").replaceChildren(...(state.notes ?? []).map((note) => el("p", { class: "small" }, note)));
    byId("disagreement").hidden = disagreement === null;
    if (disagreement !== null) {
      byId("disagreement-sentence").textContent = disagreement.sentence;
      const n = disagreement.things.length;
      byId("decide").hidden = n === 0;
      byId("decide").textContent = n === 1 ? "Ask me this one" : `Ask me these ${count(n)}`;
    }
  };
  const fitSentence = () => {
    const { fit } = state;
    if (fit.problem !== null) return fit.problem;
    if (fit.is_running) return "Classifying with your latest answers …";
    if (fit.revision === null) return "No classification yet.";
    const behind = state.revision - fit.revision;
    if (behind > 0) return `The classification is ${counted(behind, "answer")} behind.`;
    return `The classification is up to date${fit.seconds === null ? "" : `; it took ${fit.seconds.toFixed(1)} s`}.`;
  };

  let timer = null;
  let isPolling = false;
  const pollSoon = (wait) => {
    clearTimeout(timer);
    timer = setTimeout(poll, wait);
  };
  const poll = async () => {
    if (isPolling) return pollSoon(200);
    isPolling = true;
    try {
      take(await talk("/api/state"));
      heard();
    } catch (error) {
      missed(error);
    }
    isPolling = false;
    tellTabs();
    const isBusy = trouble !== null || state === null || state.fit.is_running || queue.length || performance.now() - lastAnswer < 3000;
    pollSoon(document.hidden ? 15000 : isBusy ? 1000 : 5000);
  };
  let mapped = ""; // the revisions that the map shows
  const take = (told) => {
    const isFirst = state === null;
    state = told;
    coming = coming.filter((name) => !told.classes.some((one) => one.name === name));
    const isForeign = !isFirst && told.revision > revision && !queue.length;
    if (isForeign) nForeign += 1;
    if (!queue.length) revision = Math.max(revision, told.revision); // or an answer under way may be counted in it
    if (isFirst) restore();
    if (isFirst && queue.length) send();
    drawClasses();
    drawKnown();
    drawSaved();
    const now = `${told.revision} ${told.fit.revision}`;
    if (now !== mapped) {
      mapped = now;
      fetchMap();
    }
    if (isFirst) renew().then(fetchAhead);
    else if (isForeign && current === null) fetchAhead();
    else if (isForeign) lookAgain();
  };
  const lookAgain = async () => {
    // someone else answered something: was it what is on show?
    const question = current;
    const was = question.thing.label;
    question.nForeign = nForeign;
    try {
      const { thing } = await talk(`/api/things/${question.thing.index}`);
      if (current !== question || thing.label === null || thing.label === was) return;
      const text = `Another tab has labelled this ${quoted(thing.label)} meanwhile. Space goes on to the next; a class key changes it.`;
      question.thing = thing;
      drawQuestion();
      notice(text);
      say(text);
    } catch (error) {
      missed(error);
    }
  };

  // ---------------------------------------------------------------- the map

  const canvas = byId("canvas");
  let points = { n: 0, x: [], y: [], index: [], class: [], is_labelled: [] };
  let picked = null; // a place in `points`
  let lit = null; // the class that is highlighted
  let isDue = false;
  const redraw = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      drawMap();
      map.placeTip(byId("tip"), picked);
    });
  };
  const map = mapOn(canvas, { redraw, isReachable: (i) => lit === null || points.class[i] === lit, margin: 20 });
  const light = (r) => {
    lit = r;
    redraw();
  };
  const spread = (values, low, scale) => values.map((value) => (value - low) * scale);
  const extremes = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const fetchMap = async () => {
    try {
      const told = await talk("/api/map");
      const [[left, right], [low, high]] = [extremes(told.x), extremes(told.y)];
      const scale = 1000 / (Math.max(right - left, high - low) || 1);
      const index = picked === null ? null : points.index[picked];
      points = { ...told, n: told.x.length, x: spread(told.x, left, scale), y: spread(told.y, low, scale) };
      picked = index === null ? null : points.index.indexOf(index);
      if (picked === -1) picked = null;
      if (points.n === 0) mapped = ""; // it is being drawn
      map.show(points, points.index.map((_, i) => i));
      const labelled = points.is_labelled.reduce((sum, is) => sum + is, 0);
      canvas.setAttribute("aria-label", `Map of ${counted(points.n, "thing")}, ${count(labelled)} of them labelled`);
      const thinned = points.n < state.n_things ? ` ${count(points.n)} of ${count(state.n_things)} things are drawn.` : "";
      const note = points.n === 0 ? "The map is being drawn." : `Framed letters are your labels. Click a point to be asked about it.${thinned}`;
      byId("map-note").textContent = note;
      redraw();
    } catch (error) {
      if (!(error instanceof Refused && error.isFinal)) missed(error);
      else byId("map-note").textContent = error.message;
    }
  };
  const letterFor = (r) => {
    const one = state.classes[r];
    return one === undefined ? "?" : (keyFor(one) ?? [...one.name][0] ?? "?");
  };
  const shortened = (name) => {
    const letters = [...visible(name)];
    return letters.length > 14 ? `${letters.slice(0, 13).join("")}…` : letters.join("");
  };
  const drawMap = () => {
    const context = map.cleared();
    if (state === null) return;
    const groups = state.classes.map(() => []);
    const unknown = [];
    const labelled = [];
    for (let i = 0; i < points.n; i++) {
      (groups[points.class[i]] ?? unknown).push(i);
      if (points.is_labelled[i]) labelled.push(i);
    }
    map.fill(context, unknown, { shape: null, colour: resolved("var(--faint)"), isFaint: lit !== null });
    groups.forEach((few, r) => {
      const isFaint = lit !== null && lit !== r;
      map.fill(context, few, { shape: shapeFor(r), colour: resolved(colourFor(r)), isFaint });
    });
    drawBadges(context, labelled);
    groups.forEach((few, r) => {
      const { name } = state.classes[r];
      const centre = lit === null || lit === r ? map.centreOf(few) : null;
      if (centre !== null) map.write(context, centre, shortened(name), { rise: NAME_ABOVE });
    });
    const at = current === null ? -1 : points.index.indexOf(current.thing.index);
    if (at >= 0) map.circle(context, at);
    if (picked !== null) map.circle(context, picked);
  };
  const drawBadges = (context, labelled) => {
    const { place } = map.frame();
    const hasLetters = labelled.length <= FEW_BADGES;
    const size = hasLetters ? 7 : map.radius() + 1.5;
    const [paper, ink] = [resolved("var(--raised)"), resolved("var(--ink)")];
    context.font = `700 10px ${getComputedStyle(document.body).fontFamily}`;
    Object.assign(context, { textAlign: "center", textBaseline: "middle", lineWidth: 1.5, globalAlpha: 1 });
    for (const i of labelled) {
      const r = points.class[i];
      if (lit !== null && lit !== r) continue;
      const [x, y] = place(i);
      context.beginPath();
      context.roundRect(x - size, y - size, 2 * size, 2 * size, 3);
      context.fillStyle = hasLetters || r < 0 ? paper : resolved(colourFor(r));
      context.strokeStyle = hasLetters && r >= 0 ? resolved(colourFor(r)) : ink;
      context.fill();
      context.stroke();
      context.fillStyle = ink;
      if (hasLetters) context.fillText(letterFor(r), x, y + 0.5);
    }
  };

  let tipTimer = null;
  const pick = (i) => {
    if (i === picked) return;
    picked = i;
    clearTimeout(tipTimer);
    if (i !== null) {
      const r = points.class[i];
      const index = points.index[i];
      const place = r < 0 ? "not classified yet" : `${points.is_labelled[i] ? "labelled" : "classified"} ${quoted(state.classes[r]?.name ?? "?")}`;
      const text = el("div", {}, el("b", {}, `#${index}`), el("span", {}, place));
      byId("tip").replaceChildren(el("div", { class: "head" }, text));
      tipTimer = setTimeout(async () => {
        const { thing } = await talk(`/api/things/${index}`).catch(() => ({ thing: null }));
        if (thing === null || picked === null || points.index[picked] !== index) return;
        text.firstChild.replaceChildren(bdi(thing.name, ""));
        if (thing.image !== null) {
          const picture = el("img", { class: "picture", alt: "" });
          picture.src = thing.image;
          text.before(picture);
        } else if (thing.text !== null) text.append(el("div", {}, `${thing.text.slice(0, 120)}${thing.text.length > 120 ? "…" : ""}`));
        redraw();
      }, 80);
    }
    redraw();
  };
  const askPicked = () => {
    if (picked === null) return;
    const index = points.index[picked];
    askFor([index], (thing) => (thing.label === null ? "You chose it on the map." : `You chose it on the map; its label is ${quoted(thing.label)}.`));
  };
  const listenToMap = () => {
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { at: map.where(event), x: map.view.x, y: map.view.y, moved: false, before: picked };
      if (map.view.zoom > 1) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = map.where(event);
      if (drag === null || map.view.zoom === 1) return pick(map.nearest(...at, 14));
      drag.moved = drag.moved || Math.hypot(at[0] - drag.at[0], at[1] - drag.at[1]) > 4;
      map.moveFrom(drag, at);
    });
    canvas.addEventListener("pointerup", (event) => {
      const i = drag !== null && !drag.moved ? map.nearest(...map.where(event), 14) : null;
      const isSecond = drag !== null && drag.before === i; // a finger looks first, and asks with a second tap
      drag = null;
      pick(i);
      if (i !== null && (event.pointerType === "mouse" || isSecond)) askPicked();
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    for (const kind of ["pointerleave", "blur"])
      canvas.addEventListener(kind, (event) => {
        drag = null;
        if (event.pointerType !== "touch" && (kind === "blur" || document.activeElement !== canvas)) pick(null);
      });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const goTo = (i) => {
        pick(i);
        if (i !== null) map.centreOn(i);
      };
      const isMine = points.n > 0 && map.obey(event.key, picked, goTo);
      if (event.key === "Enter") askPicked();
      else if (event.key === "Escape") focusQuestion();
      else if (!isMine) return;
      event.preventDefault();
      event.stopPropagation();
    });
    map.listenToZoom();
  };

  // ---------------------------------------------------------------- files to take away

  const listenToExports = () => {
    byId("exports").addEventListener("click", async (event) => {
      const link = event.target.closest("a");
      if (link === null) return;
      event.preventDefault();
      const note = byId("export-note");
      note.textContent = `${link.download} is being made …`;
      try {
        const reply = await fetch(link.href, { cache: "no-store" });
        if (!reply.ok) throw new Refused(reply.status, (await reply.json().catch(() => ({}))).error ?? `The server answered ${reply.status}.`);
        const address = URL.createObjectURL(await reply.blob());
        el("a", { href: address, download: link.download }).click();
        setTimeout(() => URL.revokeObjectURL(address), 10000);
        const without = queue.length ? ` It lacks ${counted(queue.length, "answer")} not saved yet.` : "";
        note.textContent = `${link.download} is in your downloads.${without}`;
      } catch (error) {
        note.textContent = error instanceof Refused ? error.message : "The server does not answer.";
      }
    });
  };

  // ---------------------------------------------------------------- keys and buttons

  const toggleGrid = () => {
    isGrid = !isGrid;
    drawQuestion();
    if (!isGrid) say("One thing at a time.");
    else if (isTiled()) say(`${heading()} ${counted(selected.size, "thing")} in.`);
    else say(current?.is_check ? "A random check is asked alone; the grid follows." : "There are no similar things to this one.");
  };
  const showHelp = () => byId("help").showModal();
  const focusMap = () => {
    canvas.focus();
    say("The map. Arrow keys go from point to point.");
  };
  const commands = {
    n: () => startNaming(),
    s: skip,
    u: undo,
    g: toggleGrid,
    r: review,
    m: focusMap,
    "?": showHelp,
    "/": () => (byId("filter-field").hidden ? say("All classes are in view.") : byId("filter").focus()),
    Escape: leaveList,
  };
  const isTyping = (node) => node.closest?.("input, textarea, select, [contenteditable]") !== null;
  const onKey = (event) => {
    const { target, key } = event;
    if (event.defaultPrevented || event.isComposing || byId("help").open || isTyping(target)) return;
    const isZ = key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    if (!isZ && (event.ctrlKey || event.metaKey || event.altKey)) return;
    const onTile = target.matches?.(".tile") ?? false;
    const pressedBy = key === " " ? "button" : "button, a, canvas"; // what the key means something to already
    const onControl = !onTile && (target.matches?.(pressedBy) ?? false);
    let act = isZ ? undo : commands[key.length === 1 ? key.toLowerCase() : key];
    if (key === "Enter" && !onControl) act = acceptGuess;
    else if (key === " " && !onControl && !onTile) act = skip;
    else if (isTiled() && target !== canvas && key.startsWith("Arrow")) act = () => moveTile(key);
    else if (isTiled() && (key === "+" || key === "-")) act = () => selectAll(key === "+");
    if (act === undefined) {
      const name = classOfKey(event);
      if (name === undefined) return;
      act = () => {
        flash(name);
        answer(name);
      };
    }
    event.preventDefault();
    if (!event.repeat || key.startsWith("Arrow")) act(); // a key that is held down is one answer
  };
  const listenToButtons = () => {
    const on = (id, act) =>
      byId(id).addEventListener("click", (event) => {
        act();
        if (event.detail > 0 && document.activeElement === byId(id)) focusQuestion();
      });
    on("accept", acceptGuess);
    on("skip", skip);
    on("undo", undo);
    on("new", () => startNaming());
    on("grid", toggleGrid);
    on("review", review);
    on("decide", decide);
    on("help-button", showHelp);
    on("help-close", () => byId("help").close());
    document.addEventListener("keydown", onKey);
    addEventListener("online", () => tryNow());
    addEventListener("visibilitychange", () => document.hidden || pollSoon(0));
    addEventListener("beforeunload", (event) => {
      if (queue.length) event.preventDefault(); // the browser asks whether to leave
    });
  };

  themeButton(byId("theme"), redraw);
  listenToTabs();
  listenToButtons();
  listenToNaming();
  listenToMap();
  listenToExports();
  drawQuestion();
  poll();
})();
