// Live parts, keys, and drafts. Everything else works without this file.
"use strict";

const here = location.pathname.replace(/\/verdict$/, ""); // an answer that was not taken is shown there
const news = () => document.getElementById("news");
const gate = (page) => (page.querySelector("#verdict [name=gate]") || {}).value || "";
const fields = (form) => [...form.querySelectorAll("textarea, #on")];
const key = (field) => `${here}#${field.id}#${(field.form.elements.gate || field.form.elements.doc || {}).value}`;
const lost = "The page is not connected. Does pi-marathon web still run?";
let source = null;
let current = null;
let stale = false;
let began = ""; // the log as the server drew it, from whose end every stream begins

function busy() {
  const field = document.activeElement;
  return Boolean(field && field.matches("textarea, input, select"));
}

function forget(form) {
  for (const field of fields(form)) sessionStorage.removeItem(key(field));
}

// The words of a form, with the lines that they are about.
function keep(form) {
  if (!fields(form).some((field) => field.matches("textarea") && field.value)) return forget(form);
  for (const field of fields(form)) sessionStorage.setItem(key(field), field.value);
}

function keepDrafts() {
  for (const form of document.querySelectorAll("form[method=post]")) {
    for (const field of fields(form)) {
      field.value = field.value || sessionStorage.getItem(key(field)) || "";
      if (field.value && field.closest("details")) field.closest("details").open = true;
    }
    keep(form);
    form.addEventListener("input", () => keep(form));
    form.addEventListener("submit", (event) => {
      if (news().textContent === lost) return event.preventDefault();
      forget(form);
    });
  }
  const log = document.getElementById("log");
  if (log) {
    began = log.textContent;
    log.scrollTop = log.scrollHeight;
  }
  const form = document.getElementById("comment");
  if (!form) return;
  place(form);
  form.addEventListener("toggle", () => place(form));
}

// The page as the server would show it now, in place of this one. What is being typed stays.
async function refresh() {
  const answer = await fetch(here + location.search);
  if (!answer.ok) return location.replace(here + location.search);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const at = current && current.dataset.line;
  const words = document.getElementById("words");
  const unsent = words && words.value && gate(document) !== gate(fresh) ? `Your words were not sent: ${words.value}` : "";
  const opened = [...document.querySelectorAll("aside details[open] > summary")].map((each) => each.textContent);
  const [focused, scrolled] = [document.activeElement.id, (document.querySelector("aside") || {}).scrollTop];
  document.title = fresh.title;
  document.body.dataset.live = fresh.body.dataset.live;
  document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
  current = at ? document.querySelector(`[data-line="${CSS.escape(at)}"]`) : null;
  if (current) current.classList.add("here");
  stale = false;
  news().textContent = unsent;
  for (const each of document.querySelectorAll("aside summary")) {
    if (opened.includes(each.textContent)) each.parentElement.open = true;
  }
  keepDrafts();
  if (scrolled) document.querySelector("aside").scrollTop = scrolled;
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
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
  const last = ends(document.getElementById("on").value || "0").pop();
  const around = (block) => ends(block.dataset.line)[0] <= last && last <= ends(block.dataset.line)[1];
  const block = form.open && [...document.querySelectorAll("article [data-line]")].filter(around).pop();
  if (!block) return document.getElementById("comment-home").after(form);
  if (block.matches("li")) return block.insertBefore(form, block.querySelector(":scope > :is(ul, ol)"));
  block.after(form);
}

function comment(lines) {
  const form = document.getElementById("comment");
  if (!form) return;
  form.open = true;
  document.getElementById("on").value = lines || "";
  place(form);
  document.getElementById("say").focus();
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
  if (event.key === "Escape" && busy()) {
    const { id, value } = document.activeElement;
    document.activeElement.blur();
    if (id === "say" && !value) document.getElementById("comment").open = false;
    return;
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "say") return sendComment(event.target);
  if (busy() || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
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
});

document.addEventListener("change", (event) => {
  if (event.target.closest("form[method=get]")) event.target.form.submit();
});
document.addEventListener("focusout", () => setTimeout(() => { if (stale && !busy()) refresh(); }, 200));
document.addEventListener("visibilitychange", () => (document.hidden ? source && source.close() : listen()));
keepDrafts();
listen();
