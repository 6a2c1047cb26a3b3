"use strict";
// What the pages of tautcut share: elements that hold text only, how numbers read, the marks of classes, light and
// dark, and the map of points. It knows no page: what a map shows and what a click means is up to each of them.
const tautcut = (() => {
  const byId = (id) => document.getElementById(id);
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

  // Text only ever enters a page through `append` and `textContent`: nothing in the data is read as HTML.
  const filled = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // ---------------------------------------------------------------- numbers

  const count = (n) => n.toLocaleString("en-US");
  const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
  const number = (x, digits = 4) =>
    x === null ? "infinite" : x.toLocaleString("en-US", { maximumSignificantDigits: digits });
  const percent = (share, digits = 1) => {
    const value = 100 * share;
    if (digits === 1 && value > 0 && value < 0.05) return "< 0.1 %";
    return `${value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} %`;
  };
  const fixed = (x) => x.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

  // ---------------------------------------------------------------- marks: a colour and a shape

  const COLOURS = 10; // as in the style sheet
  const turned = (corners, radius, from = -90) =>
    Array.from({ length: corners }, (_, k) => {
      const angle = ((from + (360 * k) / corners) * Math.PI) / 180;
      const reach = Array.isArray(radius) ? radius[k % radius.length] : radius;
      return [reach * Math.cos(angle), reach * Math.sin(angle)].map((x) => Math.round(100 * x) / 100);
    });
  // Unit shapes, centred. Seven, so that colours and shapes can go round side by side and no pair comes twice in 70.
  const SHAPES = [
    null, // a circle
    [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]],
    [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]],
    [[0, 1.2], [1.1, -0.8], [-1.1, -0.8]],
    turned(10, [1.4, 0.6]), // a star
    turned(8, [1.3, 0.5]), // a star of four
  ];
  const markOf = (shape, colour) => {
    const body = shape === null ? svg("circle", { r: 1.1 }) : svg("polygon", { points: shape.join(" ") });
    const node = svg("svg", { viewBox: "-1.2 -1.2 2.4 2.4", class: "mark", "aria-hidden": "true" }, body);
    node.style.setProperty("--mark", colour);
    return node;
  };

  // ---------------------------------------------------------------- light and dark

  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const themeButton = (button, redraw) => {
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      redraw();
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      show();
    });
    prefersDark.addEventListener("change", show);
    show();
  };
  let probe = null; // canvas knows no CSS variables: an element turns them into colours
  const resolved = (colour) => {
    if (probe === null) document.body.append((probe = el("span", { hidden: "" })));
    probe.style.color = colour;
    return getComputedStyle(probe).color;
  };

  // ---------------------------------------------------------------- the map

  const trace = (context, shape, x, y, r) => {
    if (shape === null) {
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 2 * Math.PI);
      return;
    }
    shape.forEach(([dx, dy], k) =>
      k ? context.lineTo(x + r * dx, y + r * dy) : context.moveTo(x + r * dx, y + r * dy),
    );
    context.closePath();
  };
  // Math.max has as many arguments as the stack holds; the largest value of many is found in blocks.
  const largest = (values) => {
    let most = 1;
    for (let i = 0; i < values.length; i += 4096) most = Math.max(most, ...values.slice(i, i + 4096));
    return most;
  };

  // Points on a canvas: where each is drawn, zooming and moving, what lies under the pointer, and the way from point
  // to point by keys. `points` are {n, x, y} from 0 up, y upwards; `drawn` are the places in them that are drawn.
  const mapOn = (canvas, { redraw, isReachable = () => true, margin = 32 }) => {
    const view = { zoom: 1, x: 0.5, y: 0.5 };
    let [points, drawn, extent] = [{ n: 0, x: [], y: [] }, [], { x: 1, y: 1 }];
    const show = (all, few) => {
      [points, drawn, extent] = [all, few, { x: largest(all.x), y: largest(all.y) }];
    };
    const frame = () => {
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      const fit = Math.min((width - 2 * margin) / extent.x, (height - 2 * margin) / extent.y) * view.zoom;
      const spot = (x, y) => [width / 2 + (x - view.x * extent.x) * fit, height / 2 - (y - view.y * extent.y) * fit];
      const place = (i) => spot(points.x[i], points.y[i]);
      return { width, height, fit, spot, place };
    };
    const radius = () => clamp(70 / Math.sqrt(points.n), 1.4, 4.5) * Math.sqrt(view.zoom);
    const onMap = ([x, y]) => {
      const { width, height, fit } = frame();
      return [view.x * extent.x + (x - width / 2) / fit, view.y * extent.y - (y - height / 2) / fit];
    };
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };

    const cleared = () => {
      // the canvas's context, empty, in pixels of the page
      const density = window.devicePixelRatio || 1;
      canvas.width = Math.round(canvas.clientWidth * density);
      canvas.height = Math.round(canvas.clientHeight * density);
      canvas.classList.toggle("is-zoomed", view.zoom > 1);
      const context = canvas.getContext("2d");
      context.scale(density, density);
      return context;
    };
    const fill = (context, few, { shape, colour, isFaint = false, size = radius() }) => {
      const { place } = frame();
      context.beginPath();
      for (const i of few) trace(context, shape, ...place(i), size);
      context.fillStyle = isFaint ? resolved("var(--faint)") : colour;
      context.globalAlpha = isFaint ? 0.45 : 0.88;
      context.fill();
    };
    const circle = (context, i) => {
      context.beginPath();
      context.arc(...frame().place(i), radius() + 4, 0, 2 * Math.PI);
      context.strokeStyle = resolved("var(--ink)");
      context.lineWidth = 2;
      context.globalAlpha = 1;
      context.stroke();
    };
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const centreOf = (few) =>
      few.length === 0 ? null : { x: median(few.map((i) => points.x[i])), y: median(few.map((i) => points.y[i])) };
    const write = (context, centre, text, { rise = 0 } = {}) => {
      const [x, y] = frame().spot(centre.x, centre.y);
      const at = [x, y - rise];
      context.globalAlpha = 1;
      context.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
      Object.assign(context, { textAlign: "center", textBaseline: "middle", lineJoin: "round", lineWidth: 4 });
      context.strokeStyle = resolved("var(--raised)");
      context.strokeText(text, ...at);
      context.fillStyle = resolved("var(--ink)");
      context.fillText(text, ...at);
    };

    const nearest = (x, y, reach) => {
      const { place } = frame();
      let best = null;
      let least = reach * reach;
      for (const i of drawn) {
        const [px, py] = place(i);
        const squared = (px - x) ** 2 + (py - y) ** 2;
        if (squared < least && isReachable(i)) [best, least] = [i, squared];
      }
      return best;
    };
    const neighbourIn = (current, [ux, uy]) => {
      // the nearest point in a cone of ninety degrees
      const { place, width, height } = frame();
      if (current === null) return nearest(width / 2, height / 2, Infinity);
      const [x, y] = place(current);
      let best = current;
      let least = Infinity;
      for (const i of drawn) {
        const [px, py] = place(i);
        const along = (px - x) * ux + (py - y) * uy;
        const across = Math.abs((px - x) * uy - (py - y) * ux);
        if (along > 0.5 && across <= along && along + across < least) [best, least] = [i, along + across];
      }
      return best;
    };

    const zoomBy = (factor, at = null) => {
      const { width, height, fit } = frame();
      const to = clamp(view.zoom * factor, 1, 40);
      if (at !== null) {
        // what lies under the pointer stays there
        const shift = (1 / fit) * (1 - view.zoom / to);
        view.x += ((at[0] - width / 2) * shift) / extent.x;
        view.y -= ((at[1] - height / 2) * shift) / extent.y;
      }
      view.zoom = to;
      if (to === 1) Object.assign(view, { x: 0.5, y: 0.5 });
      redraw();
    };
    const moveFrom = (start, at) => {
      const { fit } = frame();
      view.x = start.x - (at[0] - start.at[0]) / fit / extent.x;
      view.y = start.y + (at[1] - start.at[1]) / fit / extent.y;
      redraw();
    };
    const centreOn = (i) => {
      if (view.zoom > 1) Object.assign(view, { x: points.x[i] / extent.x, y: points.y[i] / extent.y });
      redraw();
    };
    const listenToZoom = () => {
      canvas.addEventListener(
        "wheel",
        (event) => {
          if (!event.ctrlKey) return; // a plain wheel scrolls the page; a pinch arrives as wheel with ctrl
          event.preventDefault();
          zoomBy(Math.exp(-event.deltaY / 100), where(event));
        },
        { passive: false },
      );
      byId("zoom-in").addEventListener("click", () => zoomBy(1.5));
      byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.5));
      byId("zoom-reset").addEventListener("click", () => zoomBy(0));
      new ResizeObserver(redraw).observe(canvas);
    };
    // Arrow keys go from point to point, plus and minus zoom, 0 shows all; whether the key meant one of these.
    const obey = (key, current, goTo) => {
      const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const factor = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[key];
      if (ways[key]) goTo(neighbourIn(current, ways[key]));
      else if (factor !== undefined) zoomBy(factor);
      return ways[key] !== undefined || factor !== undefined;
    };
    const placeTip = (tip, i) => {
      tip.hidden = i === null;
      if (i === null) return;
      const { width, height, place } = frame();
      const [x, y] = place(i);
      if (x < 0 || y < 0 || x > width || y > height) {
        tip.hidden = true;
        return;
      }
      const left = x + 14 + tip.offsetWidth > width ? x - 14 - tip.offsetWidth : x + 14;
      const top = clamp(y - tip.offsetHeight / 2, 4, height - tip.offsetHeight - 4);
      tip.style.transform = `translate(${Math.round(Math.max(left, 4))}px, ${Math.round(top)}px)`;
    };

    return {
      view, show, frame, radius, onMap, where, cleared, fill, circle, centreOf, write, nearest, zoomBy, moveFrom,
      centreOn, listenToZoom, obey, placeTip,
    };
  };

  return {
    byId, clamp, el, svg, count, counted, number, percent, fixed, COLOURS, SHAPES, markOf, isDark, themeButton, resolved,
    mapOn,
  };
})();
