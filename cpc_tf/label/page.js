// The page of `cpc-tf label`. `state` is what the server said last, `pictureOf` has every image that was shown, and a Grid
// shows some of them. Names of files and classes are text: they reach the page by textContent and attributes alone.

const BATCH = 24; // images to label at once
const CHUNK = 200; // images of the list of all that are fetched at once
const PAGE = sessionStorage.getItem("page") ?? crypto.randomUUID(); // a reload goes on under the same id
addEventListener("pagehide", () => sessionStorage.setItem("page", PAGE));
addEventListener("pageshow", () => sessionStorage.removeItem("page")); // so that a copy of the tab gets its own

const $ = (id) => document.getElementById(id);
const quantity = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
const text = (id, value) => $(id).textContent === value || ($(id).textContent = value); // what stays is not read out again
const pictureOf = new Map();
let state = { classes: [], broken: [] };
let view = "", loading = false, turns = 0; // turns: how often a view was asked for
let batch = [], why = "", origin = null; // of Label; origin: the image that the shown ones are like
let likeness = ""; // the class that these may have
let asked = null; // the images that Enter would have passed over
const BEGIN = "Press n, type what is on the framed image, press Enter; then each class has a key.";

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// ---- The server. What is sent goes out in the order of the keys; what is asked for waits until all of it has arrived.
let queue = Promise.resolve(), timer;

async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  const post = body && { method: "POST", headers, body: JSON.stringify({ page: PAGE, ...body }) };
  const answer = await fetch(path, post).catch(() => {
    throw new Error("The server does not answer: is cpc-tf label still running? This page keeps what it shows.");
  });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  throw Object.assign(new Error(said.error ?? `The server answered ${answer.status}.`), { status: answer.status });
}

// Resolves to the new state, or to undefined after an error, which is shown.
function send(path, body, undo) {
  queue = queue.then(() => call(path, body)).then((said) => {
    if (body || $("alert").dataset.status === "none") $("alert").hidden = true;
    update(said);
    return said;
  }).catch((error) => {
    undo?.();
    complain(error);
  });
  return queue;
}

const ask = (path) => queue.then(() => call(path));

function complain(error) {
  $("alert").firstElementChild.textContent = error.message;
  $("alert").dataset.status = error.status ?? "none";
  $("claim").hidden = error.status !== 409;
  $("alert").hidden = false;
}
addEventListener("unhandledrejection", ({ reason }) => complain(reason));

const poll = () => send(`state?page=${PAGE}`).finally(schedule);
function schedule() {
  clearTimeout(timer);
  timer = setTimeout(poll, state.pending ? 1000 : 8000);
}

function remember(pictures) {
  return pictures.map((picture) => {
    const one = Object.assign(pictureOf.get(picture.index) ?? {}, picture);
    pictureOf.set(one.index, one);
    for (const grid of GRIDS) grid.draw(one);
    return one;
  });
}

// The newest of some images, from the list of all.
async function look(indices) {
  const wanted = new Set(indices), found = [];
  for (const index of [...wanted].sort((one, other) => one - other)) {
    if (!wanted.has(index)) continue;
    const { pictures } = await ask(`all?start=${index}&count=${CHUNK}`);
    found.push(...pictures.filter((picture) => wanted.delete(picture.index)));
  }
  return remember(found);
}

// ---- Images in rows: one is in focus, any number are selected.
class Grid {
  constructor(id, toggles = false) {
    Object.assign(this, { element: $(id), toggles, tiles: [], tileOf: new Map(), at: 0, anchor: 0 });
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("dblclick", enlarge);
    this.element.addEventListener("pointerdown", (event) => this.drag(event));
  }

  get selected() { return this.tiles.filter((tile) => tile.ariaSelected === "true").map((tile) => tile.picture); }
  get picture() { return this.tiles[this.at]?.picture; }
  get targets() { return this.selected.length || !this.picture ? this.selected : [this.picture]; }

  show(pictures, chosen) {
    this.tiles = [];
    this.tileOf.clear();
    this.element.replaceChildren();
    this.add(pictures, chosen);
    this.move(Math.max(0, pictures.findIndex((picture) => !picture.by)));
  }

  add(pictures, chosen = () => false) {
    for (const picture of pictures) {
      const src = `thumb/${picture.index}.jpg`, image = make("img", { loading: "lazy", src, alt: picture.file, draggable: false });
      image.onerror = () => fetch(src).then(({ status }) => status === 404 && drop([picture]));
      const texts = ["label", "guess"].map((className) => make("span", { className }));
      const properties = { className: "tile class", role: "option", tabIndex: -1, title: picture.file, picture };
      const tile = make("div", { ...properties, ariaSelected: chosen(picture) }, image, ...texts);
      this.tileOf.set(picture, tile);
      this.tiles.push(tile);
      this.draw(picture);
    }
    this.element.append(...this.tiles.slice(-pictures.length || this.tiles.length));
  }

  draw(picture) {
    const tile = this.tileOf.get(picture), { labels, by, guess, share } = picture;
    if (!tile) return;
    const [label, guessed] = tile.querySelectorAll("span");
    label.textContent = labels.join(", ") || (by && "none of them");
    guessed.textContent = guess && `${Math.round(100 * share)} % ${guess}`;
    tile.classList.toggle("labelled", by !== "");
    tile.classList.toggle("accepted", by === "model");
    tile.style.setProperty("--class", state.classes.find(({ name }) => name === labels[0])?.color ?? "gray");
  }

  remove(picture) {
    const tile = this.tileOf.get(picture), place = this.tiles.indexOf(tile);
    if (!tile) return;
    this.tileOf.delete(picture);
    this.tiles.splice(place, 1);
    tile.remove();
    this.move(this.at - (place < this.at));
  }

  choose(chosen) {
    this.tiles.forEach((tile, place) => {
      const selected = String(chosen(tile, place));
      if (tile.ariaSelected !== selected) tile.ariaSelected = selected;
    });
    tell();
  }

  move(to, extend) {
    if (this.tiles[this.at]) this.tiles[this.at].tabIndex = -1;
    this.at = Math.max(0, Math.min(to, this.tiles.length - 1));
    if (this.picture) this.tiles[this.at].tabIndex = 0;
    if (extend) this.choose((_, place) => (place - this.anchor) * (place - this.at) <= 0);
    else this.anchor = this.at;
    if (this === current()) this.focus();
    tell();
  }

  focus() {
    if (!document.activeElement.matches("input, select")) this.tiles[this.at]?.focus();
  }

  step(key, extend) {
    const columns = getComputedStyle(this.element).gridTemplateColumns.split(" ").length;
    if (!extend && !this.toggles) this.choose(() => false);
    this.move(this.at + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key], extend);
  }

  click(event) {
    const at = this.tiles.indexOf(event.target.closest(".tile"));
    if (at < 0 || this.dragged) return;
    if (event.shiftKey) return this.move(at, true);
    const keeps = this.toggles || event.ctrlKey || event.metaKey;
    this.choose((tile, place) => (keeps ? (tile.ariaSelected === "true") !== (place === at) : place === at));
    this.move(at);
  }

  drag(down) {
    this.dragged = false;
    if (down.button || down.pointerType === "touch") return;
    const before = new Set(down.ctrlKey || down.metaKey || down.shiftKey ? this.selected : []);
    const box = make("div", { className: "box" });
    const move = ({ pageX, pageY }) => {
      const [width, height] = [Math.abs(pageX - down.pageX), Math.abs(pageY - down.pageY)];
      if (!this.dragged && Math.max(width, height) < 8) return;
      this.dragged = true;
      document.body.append(box);
      const sides = { left: Math.min(pageX, down.pageX), top: Math.min(pageY, down.pageY), width, height };
      for (const [name, value] of Object.entries(sides)) box.style[name] = `${value}px`;
      const area = box.getBoundingClientRect();
      this.choose((tile) => {
        const { left, right, top, bottom } = tile.getBoundingClientRect();
        const touched = left < area.right && right > area.left && top < area.bottom && bottom > area.top;
        return touched || before.has(tile.picture);
      });
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", () => {
      box.remove();
      removeEventListener("pointermove", move);
      if (this.dragged) this.move(this.tiles.findIndex((tile) => tile.ariaSelected === "true"));
    }, { once: true });
  }
}

const GRIDS = [new Grid("pictures"), new Grid("everything"), new Grid("slips"), new Grid("surest", true)];
const [toLabel, everything, slips, surest] = GRIDS;
let checking = slips; // of the two grids of Check, the one that had the focus last
for (const grid of [slips, surest]) grid.element.addEventListener("focusin", () => (checking = grid));
const current = () => ({ label: toLabel, all: everything, check: checking })[view];

// ---- What a person does. The page shows it at once, and takes it back if the server refuses it.
// Images whose files are no longer there.
function drop(pictures) {
  if (!pictures.length) return;
  batch = batch.filter((picture) => !pictures.includes(picture));
  for (const grid of GRIDS) pictures.forEach((picture) => grid.remove(picture));
  say(`${pictures.length === 1 ? pictures[0].file : quantity(pictures.length, "image")}: deleted from the folder`);
}

const LABELS = {
  set: (_, name) => [name],
  add: (labels, name) => [...new Set([...labels, name])],
  remove: (labels, name) => labels.filter((label) => label !== name),
  clear: () => [],
  none: () => [],
};

async function give(how, name = "", { by = "person", grid = current(), pictures = grid?.targets ?? [] } = {}) {
  if (!pictures.length || loading) return;
  const before = pictures.map(({ index, labels, by }) => ({ index, labels, by }));
  const indices = before.map(({ index }) => index);
  remember(before.map(({ index, labels: old }) => {
    const labels = LABELS[how](old, name);
    return { index, labels, by: labels.length || how === "none" ? by : "" };
  }));
  say(`${quantity(indices.length, "image")}: ${{ clear: "no label", none: "none of the classes", remove: `not ${name}` }[how] ?? name}`);
  const sent = send("label", { indices, how, class: name, by }, () => {
    remember(before);
    if (grid.tileOf.has(pictures[0])) grid.move(grid.tiles.indexOf(grid.tileOf.get(pictures[0])));
  }).then((said) => {
    if (!said) return said;
    drop(pictures.filter(({ index }) => said.gone.includes(index)));
    // The class is there under another spelling.
    if (said.class !== name) remember(pictures.map(({ index, labels }) =>
      ({ index, labels: [...new Set(labels.map((one) => (one === name ? said.class : one)))] })));
    return said;
  });
  if (how === "clear" || state.multi_label) return sent;
  // The focus goes to the next image without a label; Label goes on with new ones when there is none.
  grid.choose(() => false);
  const last = grid.tiles.indexOf(grid.tileOf.get(pictures.at(-1)));
  const free = grid.tiles.flatMap((tile, place) => (tile.picture.by ? [] : [place]));
  const next = free.find((place) => place > last) ?? (grid === toLabel ? free[0] : last + 1);
  if (next !== undefined) grid.move(next);
  else {
    loading = true; // no key is for an image until there are new ones
    if (await sent) await more();
    loading = false;
  }
  return sent;
}

// Classes have their keys before the server has answered.
const coming = [], classNames = () => [...new Set([...state.classes.map(({ name }) => name), ...coming])];

function giveClass(name, options) {
  const sent = () => give(state.multi_label ? "add" : "set", name, options);
  if (classNames().includes(name)) return sent();
  coming.push(name);
  return sent().finally(() => coming.splice(coming.indexOf(name), 1));
}

function toggleClass(name) {
  const all = current()?.targets.every((picture) => picture.labels.includes(name));
  return state.multi_label && all ? give("remove", name) : giveClass(name);
}

// The tenth class has the key 0.
function giveByKey(key) {
  const name = classNames()[(Number(key) + 9) % 10];
  return name ? toggleClass(name) : say(`No class has the key ${key} yet: press n and type one`);
}

async function step(how) {
  const said = await send(how, {});
  const pictures = await look((said?.changed ?? []).filter((index, place) => pictureOf.has(index) || place < BATCH));
  if (view !== "label" || !pictures.length || pictures.some((picture) => toLabel.tileOf.has(picture))) return;
  batch = pictures.slice(0, BATCH);
  why = how === "undo" ? "Undone" : "Redone";
  history.replaceState(null, "", "#label");
  await route();
}

function rename(name) {
  const item = [...$("chips").children].find((one) => one.dataset.name === name);
  if (!item) return;
  const input = make("input", { value: name, ariaLabel: `New name of ${name}`, spellcheck: false });
  const done = async () => {
    const to = input.value.trim();
    input.onblur = null;
    input.remove();
    const said = to && to !== name && (await send("rename", { class: name, to }));
    if (said) {
      const named = (one) => (one === name ? said.class : one);
      remember([...pictureOf.values()].map(({ index, labels, guess }) =>
        ({ index, labels: [...new Set(labels.map(named))], guess: named(guess) })));
    }
    chips();
    current()?.focus();
  };
  input.onblur = () => { input.value = name; done(); };
  input.addEventListener("keydown", ({ key }) => (key === "Enter" ? done() : key === "Escape" && input.blur()));
  item.replaceChildren(input);
  input.focus();
  input.select();
}

// Keeps the labels of slips, or takes the guesses.
function settle(take) {
  const named = (picture) => (take ? picture.guess : picture.labels[0]), chosen = view === "check" ? slips.targets : [];
  for (const name of new Set(chosen.map(named))) {
    const pictures = chosen.filter((picture) => named(picture) === name);
    giveClass(name, { grid: slips, pictures }).then((said) => {
      for (const picture of said ? pictures : []) slips.tileOf.get(picture)?.classList.add("settled");
    });
  }
}

async function accept() {
  const options = { by: "model", grid: surest, pictures: surest.selected };
  if (await giveClass($("sure-class").value, options)) await showSurest();
}

// An Enter too many, as after the last label of a screen, does not pass over the next one.
function enter() {
  if (view === "check" && checking === surest) return accept();
  const isNew = view === "label" && !loading && !origin && asked !== batch && batch.length && batch.every(({ by }) => !by);
  if (!isNew) return onward();
  asked = batch;
  say("No image here has a label yet: press Enter again to skip them");
}

function onward() {
  if (view !== "label" || loading) return;
  if (!origin) return more();
  if (!toLabel.selected.length) return (location.hash = "#label");
  if (!origin.labels.length) return say("The first image has no class yet: give one to all");
  const pictures = toLabel.selected;
  for (const name of origin.labels) giveClass(name, { pictures });
  toLabel.choose(() => false);
}

function enlarge() {
  if (current()?.picture && !$("large").open) $("large").showModal();
  tell();
}

// ---- The views: each fetches what it needs, and returns what shows it.
function more() {
  batch = []; // what of it has no label comes again later
  return route();
}

function listed(start) {
  return ask(`all?start=${start}&count=${CHUNK}&class=${encodeURIComponent($("filter").value)}`);
}

// Adds to All while its end is near; an observer reports anew when it is told to observe anew.
const scrolled = new IntersectionObserver(async (entries) => {
  const turn = turns, name = $("filter").value;
  if (!entries.at(-1).isIntersecting || view !== "all") return;
  scrolled.disconnect();
  const start = everything.tiles.filter(({ picture }) => !name || picture.labels.includes(name)).length;
  const { pictures } = await listed(start);
  if (turn !== turns || !pictures.length) return;
  everything.add(remember(pictures).filter((picture) => !everything.tileOf.has(picture)));
  scrolled.observe($("end"));
}, { rootMargin: "1500px" });

async function showSurest() {
  const name = $("sure-class").value;
  const { pictures } = name ? await ask(`surest?class=${encodeURIComponent(name)}&count=${BATCH}`) : { pictures: [] };
  surest.show(remember(pictures), ({ likely }) => likely);
  const some = pictures.some(({ likely }) => likely) ? "Selected are those with a confidence at which nine in ten guesses were right." :
    "None is selected: at no confidence were nine in ten guesses right so far.";
  text("sure", pictures.length ? `Guesses, the most confident first. ${some} Click to change that, then accept: they stay marked as accepted guesses.` :
    name ? `No image without a label is guessed to be ${name}.` : "There is no class yet.");
  tell();
}

// How many of some images are of a class, as far as their guesses tell.
function expected(pictures, name) {
  const known = pictures.filter(({ chance }) => typeof chance === "number");
  if (!known.length) return "";
  return `about ${Math.round(known.reduce((sum, { chance }) => sum + chance, 0))} of ${known.length} should be ${name}`;
}

const VIEWS = {
  async label(index) {
    if (index === undefined) {
      if (!batch.some((picture) => !picture.by)) {
        const said = await ask(`next?count=${BATCH}`);
        batch = remember(said.pictures);
        why = batch.length ? `Why these: ${said.why}` : "Every image has a label";
        asked = null;
      }
      return () => { origin = null; toLabel.toggles = false; toLabel.show(batch); };
    }
    const [[one], { pictures, class: name }] = await Promise.all([look([Number(index)]), ask(`like/${index}?count=${BATCH - 1}`)]);
    const shown = [one, ...remember(pictures).filter((picture) => picture !== one)];
    return () => {
      [origin, likeness] = [one, name];
      toLabel.toggles = true;
      toLabel.show(shown, (picture) => (picture === one ? !one.by : picture.likely));
    };
  },
  async all() {
    const { pictures, total } = await listed(0);
    return () => {
      $("total").textContent = quantity(total, "image");
      everything.show(remember(pictures));
      scrolled.observe($("end"));
    };
  },
  async check() {
    const { pictures, why: none } = await ask("slips");
    await showSurest();
    return () => {
      $("slipped").textContent = state.pending ? "Computing …" : pictures.length ? `${quantity(pictures.length, "label")} that may be wrong, the most doubtful first; ` +
        "below each stands what the other labels say." : none ? `Not listed: ${none}, so most of what the classifier doubts is right.` :
        "No label disagrees with the others.";
      checking = pictures.length ? slips : surest;
      slips.show(remember(pictures.slice(0, BATCH)));
      checking.focus();
    };
  },
  async map() {
    const said = await ask("map");
    return () => { points = said.points.sort((one, other) => one[1] - other[1]); point(-1); };
  },
  async finish() {
    const { commands, remarks } = await ask("commands");
    return () => {
      $("ready").textContent = remarks.join(" ");
      $("commands").replaceChildren(...commands.flatMap(({ what, command }) => {
        const words = command.split(" ").flatMap((word) => [make("span", { textContent: word }), " "]); // lines break between them
        const pre = make("pre", { tabIndex: 0 }, ...words), copy = make("button", { textContent: "Copy", ariaLabel: `Copy: ${what}` });
        const mark = () => getSelection().selectAllChildren(pre); // where the browser does not let the page copy
        copy.onclick = () => navigator.clipboard.writeText(command).then(() => say("Copied"), mark);
        return [make("dt", { textContent: what }), make("dd", {}, pre, copy)];
      }));
    };
  },
};

async function route() {
  const [name, argument] = location.hash.slice(1).split("/");
  const chosen = name in VIEWS ? name : "label", turn = ++turns;
  loading = true;
  try {
    const show = await VIEWS[chosen](argument);
    if (turn !== turns) return;
    view = chosen;
    for (const one of Object.keys(VIEWS)) $(one).hidden = one !== view;
    for (const link of document.querySelectorAll("nav a")) link.ariaCurrent = link.hash === `#${view}` ? "page" : null;
    show();
    tell();
  } finally {
    if (turn === turns) loading = false;
  }
}

// ---- The map. `pointed`: the place in `points`, which are in order from left to right, of the one under the mouse.
let points = [], pointed = -1;
const canvas = $("canvas"), hover = $("hover");
const onCanvas = ([, x, y]) => [14 + x * (canvas.clientWidth - 28), 14 + y * (canvas.clientHeight - 28)];

function point(place) {
  pointed = place;
  const [one, scale] = [points[place], devicePixelRatio], pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  pen.scale(scale, scale);
  const tones = [...$("chips").querySelectorAll("i")].map((swatch) => getComputedStyle(swatch).backgroundColor);
  for (const each of [...points].sort((a, b) => a[4] - b[4]).concat(one ? [one] : [])) {
    pen.fillStyle = pen.strokeStyle = tones[each[3]] ?? getComputedStyle(canvas).color;
    pen.beginPath();
    pen.arc(...onCanvas(each), each === one ? 8 : each[4] ? 5 : 3.5, 0, 2 * Math.PI);
    each[4] ? pen.fill() : pen.stroke();
  }
  if ((hover.hidden = !one)) return;
  const [x, y] = onCanvas(one), name = state.classes[one[3]]?.name ?? "";
  hover.style.left = `${x + 196 > canvas.clientWidth ? Math.max(0, x - 192) : x + 16}px`;
  hover.style.top = `${Math.max(0, y - 90)}px`;
  hover.firstElementChild.src = `thumb/${one[0]}.jpg`;
  hover.lastElementChild.textContent = one[4] ? name : name ? `guess: ${name}` : "no label";
}

const follow = () => pointed >= 0 && (location.hash = `#label/${points[pointed][0]}`);
canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
  const away = points.map(onCanvas).map(([x, y]) => Math.hypot(x - offsetX, y - offsetY)), least = Math.min(...away);
  const place = least < 20 ? away.indexOf(least) : -1;
  if (place !== pointed) point(place);
});
canvas.addEventListener("pointerleave", () => point(-1));
canvas.addEventListener("click", follow);
canvas.addEventListener("keydown", ({ key }) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (by && points.length) point((pointed + by + points.length) % points.length);
  if (key === "Enter") follow();
});
const again = () => view === "map" && point(pointed);
addEventListener("resize", again);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

// ---- What is on the page besides the images.
let saying;
function say(what) {
  clearTimeout(saying);
  text("said", what);
  saying = setTimeout(() => text("said", ""), 4000);
}

function chips() {
  if ($("chips").querySelector("input")) return; // a name is being typed
  $("chips").replaceChildren(...state.classes.map(({ name, count, accepted, color }, place) => {
    const key = place < 10 ? [make("kbd", { textContent: (place + 1) % 10 })] : [];
    const counts = make("span", { className: "muted", textContent: count,
      title: `${quantity(count, "label")}, of which ${accepted} are accepted guesses` });
    const chip = make("button", { className: "chip class" }, ...key, make("i"), make("b", { textContent: name, title: name }), counts);
    chip.style.setProperty("--class", color);
    chip.onclick = () => { toggleClass(name); current()?.focus(); };
    const edit = make("button", { className: "rename", ariaLabel: `Rename ${name}`, title: "Rename", onclick: () => rename(name) }, "✎");
    const item = make("li", {}, chip, edit);
    item.dataset.name = name;
    return item;
  }));
}

function update(said) {
  const looks = ({ classes }) => JSON.stringify(classes.map(({ name, color }) => [name, color]));
  const others = looks(said) !== looks(state), isNew = said.version !== state.version, isDone = state.pending && !said.pending;
  state = said;
  const { folder, figures, labelled, accepted, pictures, classes, remarks, broken } = state;
  document.title = `Label ${folder}`;
  document.body.classList.toggle("several", state.multi_label);
  text("folder", folder);
  text("count", `${labelled.toLocaleString("en")} of ${pictures.toLocaleString("en")} labelled` +
    (accepted ? `, ${accepted.toLocaleString("en")} accepted` : ""));
  const told = figures ? [figures.sentence, figures.forecast].filter(Boolean).join("; ") : "The accuracy of the guesses is shown after some labels";
  text("figures", `${told}.${state.pending ? " Computing …" : ""}`);
  [$("undo").disabled, $("redo").disabled] = [!state.undo, !state.redo];
  text("remarks", remarks.join("\n"));
  $("broken").hidden = !broken.length;
  text("how-many", `${quantity(broken.length, "file")} cannot be read`);
  text("files", broken.map(({ file, why }) => `${file}: ${why}`).join("\n"));
  chips();
  document.body.classList.toggle("begins", !classes.length);
  if (others) {
    tell();
    for (const [id, first] of [["filter", [make("option", { value: "", textContent: "all images" })]], ["sure-class", []]]) {
      const { value } = $(id);
      $(id).replaceChildren(...first, ...classes.map(({ name }) => make("option", { value: name, textContent: name })));
      if (classes.some(({ name }) => name === value)) $(id).value = value;
    }
    for (const grid of GRIDS) for (const picture of grid.tileOf.keys()) grid.draw(picture);
  }
  if ((view === "map" && isNew) || (view === "check" && isDone && !slips.tiles.length)) route();
  schedule();
}

// Tells what is selected, and what the buttons would do with it.
function tell() {
  const grid = current(), count = grid?.selected.length, guesses = new Set(slips.targets.map(({ guess }) => guess));
  const hope = origin && expected(toLabel.selected.filter((picture) => picture !== origin), likeness), named = origin?.labels.join(", ");
  if (view === "label") text("why", origin ? `Like ${origin.file}: ${count} selected${hope && `, ${hope}`}` : count ? `${count} selected` :
    state.classes.length || !batch.length ? why : BEGIN);
  text("onward", !origin ? "Next images" : !count ? "Back" : named ? `All are ${named}` : "Give a class");
  $("next").hidden = view !== "label";
  $("next").classList.toggle("main", state.classes.length > 0);
  text("guess", guesses.size === 1 ? [...guesses][0] : "the guesses");
  text("accept", `Accept ${surest.selected.length} as ${$("sure-class").value}`);
  text("hope", expected(surest.selected, $("sure-class").value));
  $("accept").disabled = !surest.selected.length;
  if (!$("large").open || !grid?.picture) return;
  const { index, file, labels, guess, share } = grid.picture, [image, caption] = $("large").firstElementChild.children;
  Object.assign(image, { src: `picture/${index}.jpg`, alt: file });
  caption.textContent = [file, labels.join(", ") || (guess && `guess: ${guess}, ${Math.round(100 * share)} %`)].filter(Boolean).join(" · ");
}

// ---- Keys, and buttons that name theirs.
const KEYS = {
  undo: () => step("undo"),
  redo: () => step("redo"),
  a: () => current()?.choose(() => true),
  x: () => current()?.choose((tile, place) => (tile.ariaSelected === "true") !== (place === current().at)),
  Escape: () => current()?.choose(() => false),
  s: () => current()?.picture && (location.hash = `#label/${current().picture.index}`),
  n: () => $("new").firstElementChild.focus(),
  r: () => rename(current()?.picture?.labels[0] ?? state.classes.at(-1)?.name),
  k: () => settle(false),
  t: () => settle(true),
  Backspace: () => give("clear"),
  Delete: () => give("clear"),
  "-": () => state.multi_label && give("none"),
  Enter: enter,
  " ": () => ($("large").open ? $("large").close() : enlarge()),
  "?": () => ($("keys").open ? $("keys").close() : $("keys").showModal()),
};

document.addEventListener("keydown", (event) => {
  const { key, target, shiftKey } = event, control = event.ctrlKey || event.metaKey, grid = current();
  if (target.matches("input, select")) return key === "Escape" && (target.blur(), grid?.focus());
  if (event.altKey || (control && !"azy".includes(key.toLowerCase()))) return;
  if (["Enter", " "].includes(key) && target.closest("button, a, summary, canvas")) return; // it is theirs
  if (($("keys").open && key !== "?") || ($("large").open && key === "Escape")) return;
  const action = control && key !== "a" ? KEYS[key === "y" || shiftKey ? "redo" : "undo"] :
    /^[0-9]$/.test(key) ? () => giveByKey(key) :
    /^Arrow/.test(key) ? grid && (() => grid.step(key, shiftKey)) : !["undo", "redo"].includes(key) && KEYS[key];
  if (!action) return;
  event.preventDefault();
  if (event.repeat && key === "Enter") return;
  action();
});
document.addEventListener("click", (event) => KEYS[event.target.closest("button[data-key]")?.dataset.key]?.());
for (const id of ["large", "keys"]) {
  $(id).addEventListener("click", () => $(id).close());
  $(id).addEventListener("close", () => current()?.focus());
}
$("accept").addEventListener("click", accept);
$("next").addEventListener("click", onward);
$("new").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = $("new").firstElementChild, name = input.value.trim();
  input.value = "";
  input.blur();
  if (name) giveClass(name);
  current()?.focus();
});
$("filter").addEventListener("change", route);
$("sure-class").addEventListener("change", showSurest);
$("claim").addEventListener("click", () => claim(true));
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => document.hidden || poll());

async function claim(force) {
  if (!(await send("claim", { force })) && !state.folder) update(await ask(`state?page=${PAGE}`));
  await route();
}
claim(false);
