// Live parts, keys, and drafts. Everything else works without this file.
"use strict";

const here = location.pathname.replace(/\/verdict$/, ""); // an answer that was not taken is shown there
const news = () => document.getElementById("news");
const gate = (page) => (page.querySelector("#verdict [name=gate]") || {}).value || "";
const task = (here.match(/\/task\/\w+/) || [""])[0]; // the part of the address that is the same after a new start
const forms = () => [...document.querySelectorAll("form[method=post]")];
const fields = (form) => [...form.querySelectorAll("textarea, #on, #version")];
const key = (field) => `${task}#${field.id}#${(field.form.elements.gate || field.form.elements.doc || {}).value}`;
const typed = (form) => fields(form).some((field) => field.matches("textarea") && field.value);
const lost = "The page is not connected. Does pi-marathon review still run?";
let source = null;
let current = null;
let stale = false;
let began = ""; // the log as the server drew it, from whose end every stream begins

function busy() {
  const field = document.activeElement;
  return Boolean(field && field.matches("textarea, input, select"));
}

// Part of the address, so that a reload shows the same.
function readdress(change) {
  const address = new URL(location.href);
  address.pathname = here;
  change(address.searchParams);
  if (address.searchParams.has("on")) address.hash = "say"; // which the browser gives the focus once it has loaded
  history.replaceState(history.state, "", address);
}

// The words of a form, with the lines and the version of the document that they are about.
function keep(form) {
  const words = typed(form);
  for (const field of fields(form)) {
    if (words) localStorage.setItem(key(field), field.value);
    else localStorage.removeItem(key(field));
  }
}

// Words are forgotten when the server says that it took them: a form may be refused, or its browser be signed out.
function forgetSent() {
  const sent = JSON.parse(sessionStorage.getItem("sent") || "[]");
  sessionStorage.removeItem("sent");
  if (!new URLSearchParams(location.search).has("sent")) return;
  for (const each of sent) localStorage.removeItem(each);
  readdress((asked) => asked.delete("sent"));
}

function prepare() {
  for (const form of forms()) {
    const kept = (field) => localStorage.getItem(key(field)) || "";
    const [on, version] = [form.elements.on, form.elements.version];
    if (version) version.dataset.shown = version.value;
    for (const field of fields(form)) if (field !== version) field.value = field.value || kept(field);
    if (version && on.value === kept(on)) version.value = kept(version) || version.value;
    keep(form);
    form.addEventListener("input", () => keep(form));
    form.addEventListener("submit", (event) => {
      if (news().textContent === lost) return event.preventDefault();
      sessionStorage.setItem("sent", JSON.stringify(fields(form).map(key)));
    });
  }
  const log = document.getElementById("log");
  if (log) {
    began = log.textContent;
    log.scrollTop = log.scrollHeight;
  }
}

// A new page: words that were not sent are shown again, and the comment that was begun is gone on with.
function begin() {
  forgetSent();
  prepare();
  for (const form of forms()) if (typed(form) && form.closest("details")) form.closest("details").open = true;
  const form = document.getElementById("comment");
  if (form && form.open) comment();
  listen();
}

// The page as the server would show it now, in place of this one. What is open stays open, with its words and the caret.
async function refresh() {
  const answer = await fetch(here + location.search);
  if (!answer.ok) return location.replace(here + location.search);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const at = current && current.dataset.line;
  const words = document.getElementById("words");
  const unsent = words && words.value && gate(document) !== gate(fresh) ? `Your words were not sent: ${words.value}` : "";
  const named = (summary) => summary.firstChild.textContent;
  const opened = [...document.querySelectorAll("main details[open] > summary")].map(named);
  const { id, selectionStart, selectionEnd } = document.activeElement;
  const scrolled = (document.querySelector("aside") || {}).scrollTop;
  document.title = fresh.title;
  document.body.dataset.live = fresh.body.dataset.live;
  document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
  current = at ? document.querySelector(`[data-line="${CSS.escape(at)}"]`) : null;
  if (current) current.classList.add("here");
  stale = false;
  news().textContent = unsent;
  for (const each of document.querySelectorAll("main summary")) {
    if (opened.includes(named(each))) each.parentElement.open = true;
  }
  prepare();
  place(document.getElementById("comment"));
  if (scrolled) document.querySelector("aside").scrollTop = scrolled;
  const field = id && document.getElementById(id);
  if (field) field.focus({ preventScroll: true });
  if (field && field.matches("textarea")) field.setSelectionRange(selectionStart, selectionEnd);
  listen();
}

function moved() {
  if (source) source.close();
  if (!busy() || !document.activeElement.value) return refresh();
  stale = true;
  news().textContent = "The task has moved on. Your text is kept: leave the field to see what is new.";
  for (const button of document.querySelectorAll("#verdict button")) button.disabled = true;
}

function listen() {
  if (source) source.close();
  if (!document.body.dataset.live || document.hidden) return;
  source = new EventSource(document.body.dataset.live);
  source.addEventListener("moved", moved);
  source.addEventListener("doing", (event) => {
    const doing = document.getElementById("doing");
    if (doing) doing.textContent = JSON.parse(event.data);
  });
  source.addEventListener("log", (event) => {
    const log = document.getElementById("log");
    if (!log) return;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
    log.textContent = (log.textContent + JSON.parse(event.data)).slice(-20000);
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  source.onopen = () => {
    if (news().textContent === lost) news().textContent = "";
    const log = document.getElementById("log");
    if (log) log.textContent = began;
  };
  source.onerror = () => { news().textContent = lost; };
}

function step(by) {
  const all = [...document.querySelectorAll("[data-line], [data-row]")];
  if (!all.length) return;
  const place = current ? all.indexOf(current) + by : 0;
  mark(all[Math.max(0, Math.min(all.length - 1, place))]);
  current.scrollIntoView({ block: "nearest" });
}

function mark(block) {
  if (current) current.classList.remove("here");
  current = block;
  current.classList.add("here");
}

// A question must be answered, as in the terminal.
function sendComment(field) {
  const kind = field.value.trim().endsWith("?") ? "must" : "note";
  field.form.requestSubmit(field.form.querySelector(`button[value=${kind}]`));
}

const ends = (lines) => lines.split("-").map(Number);

// The selected lines, else those of the block at hand.
function chosen() {
  const picked = getSelection();
  const at = (node) => (node.nodeType === 1 ? node : node.parentElement).closest("article :is([data-part], [data-line])");
  const blocks = picked.isCollapsed ? [] : [at(picked.anchorNode), at(picked.focusNode)];
  if (!blocks[0] || !blocks[1]) return current && current.dataset.line;
  const lines = blocks.flatMap((each) => ends(each.dataset.part || each.dataset.line));
  return `${Math.min(...lines)}-${Math.max(...lines)}`;
}

// The form stands below the lines that it is about, and otherwise beside the document.
function place(form) {
  if (!form) return;
  const last = ends(document.getElementById("on").value || "0").pop();
  const around = (block) => ends(block.dataset.line)[0] <= last && last <= ends(block.dataset.line)[1];
  const block = form.open && [...document.querySelectorAll("article [data-line]")].filter(around).pop();
  if (!block) return document.getElementById("comment-home").after(form);
  if (block.matches("li")) return block.insertBefore(form, block.querySelector(":scope > :is(ul, ol)"));
  block.after(form);
}

// The focus comes last: whatever moves the form takes it away.
function comment(lines) {
  const form = document.getElementById("comment");
  if (!form) return;
  const [on, version] = [document.getElementById("on"), document.getElementById("version")];
  if (lines && lines !== on.value) [on.value, version.value] = [lines, version.dataset.shown];
  form.open = true;
  keep(on.form);
  readdress((asked) => asked.set("on", on.value));
  place(form);
  document.getElementById("say").focus();
}

const openForms = () => [...document.querySelectorAll("main details[open]")].filter((each) => each.querySelector("form"));

// What was typed is there again when the form is opened the next time.
function closeForms() {
  for (const form of openForms()) form.open = false;
  readdress((asked) => {
    const [first] = ends(asked.get("on") || "");
    if (first) asked.set("at", first); // in the same part of a long document
    asked.delete("on");
  });
  place(document.getElementById("comment"));
}

function enter() {
  const link = current && current.matches("[data-row]") && current.querySelector("a");
  if (link) return link.click();
  const button = document.querySelector("#verdict textarea, #verdict button");
  if (button) button.focus();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  c: () => comment(chosen()),
  d: () => { const link = document.getElementById("changes"); if (link) link.click(); },
  Enter: enter,
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    const field = document.activeElement;
    if (!busy() || field.closest("#comment")) closeForms();
    return field.blur();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "say") return sendComment(event.target);
  if (busy() || openForms().length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && document.activeElement.matches("a, button, summary")) return;
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

document.addEventListener("click", (event) => {
  const at = event.target.closest(".at");
  if (at && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    mark(at.parentElement);
    comment(current.dataset.line);
  }
  if (event.target.closest("#comment > summary")) {
    event.preventDefault();
    if (document.getElementById("comment").open) closeForms();
    else comment();
  }
});

document.addEventListener("change", (event) => {
  if (event.target.closest("form[method=get]")) event.target.form.submit();
});
document.addEventListener("focusout", () => setTimeout(() => {
  const button = document.activeElement.closest("form button"); // a button that is pressed must stay where it is
  if (stale && !busy() && !button) refresh();
}, 200));
document.addEventListener("visibilitychange", () => (document.hidden ? source && source.close() : listen()));
begin();
