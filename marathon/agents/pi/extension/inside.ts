/**
 * A marathon inside the pi that started it. The program runs in the background, and this side shows its event log
 * (`.marathon/runs/NNN/events/NNN.jsonl`) in the session of the human.
 *
 * The runner decides and writes. What the human says goes to it through a command of the program. A gate is answered
 * only by keys, in a dialog of this terminal: no tool and no message of a model leads there.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { homedir, tmpdir } from "node:os";
import * as path from "node:path";
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";
import { CONTROL, because, duration, entriesOf, inSession, inTerminal, loadedTwice } from "./marathon-loop.ts";
import type { Fields } from "./marathon-loop.ts";

type Shown = { kind: "said" | "thought" | "tool" | "line" | "border" | "warning"; text: string } & Fields;
type Show = (shown: Shown) => void;
type Offer = { label: string; choice: string; phase: string | null; words: string; ask: string };

const PROGRAM = "pi-marathon";
const DETACH = ["--detach"]; // the program checks everything, goes on without a terminal, and this start ends
const HELLO = "pi-marathon:inside";
const ENTRY = "pi-marathon";
const STOP_WITH_PI = "--stop-with-pi";
const WIDGET = "marathon-loop";
const TICK = 250; // milliseconds
const A_MOMENT = 1000; // milliseconds, within which a program that was started holds its task or is gone
const AT_ONCE = 4 * 1024 * 1024;
const RECENT = 32 * 1024; // bytes of the log that are shown of a marathon that runs already
const LONGEST_SHOWN = 16 * 1024; // characters of one entry; all of it stands in the log
const ALT_ENTER = /^\x1b(\r|\n|\[13;3(:1)?u|\[27;3;13~)$/;
const NOTHING = "Undo nothing";
const LATER = "Decide later: /marathon-loop asks again";
const HINT = "Enter steers │ Alt+Enter: for the next session │ /ralph stop";
const WELCOME = "marathon: /scribe writes a task with you, /marathon-loop PATH runs it";
const WHILE_STARTING = 3000; // milliseconds; a gate before the first session is in no log
// The options of `pi-marathon repeat` that take the next word. A value of --worktree and --sandbox stands after a "=".
const TAKES_VALUE = new RegExp(
  "^--(agent|mode|set|oversight|shape|max-iterations|max-time|max-cost|max-tokens|reflect-every|breaker" +
    "|session-timeout|retries|retry-wait|outage|keep-events|success)$",
);
const ENDS_WELL = [0, 3, 4, 5]; // completed, waits for a human, limit, stuck: `status` says which
const RALPH = "start NAME GOAL, stop, status, list, kill, clean";

/** Survives /new, /resume and /reload, which load this file anew. */
type Kept = { task: string; words: string[]; stopsWithPi: boolean; asked?: string };
const kept = globalThis as unknown as { piMarathon?: Kept };

export default function (pi: ExtensionAPI): void {
  if (loadedTwice(pi, HELLO)) return;
  new Inside(pi).register();
}

// The program

/**
 * What a command of the program says. A refusal is an error with its sentence. The human's words go through a pipe
 * where the command line has a "-", because everyone can read command lines, and they cannot be long.
 */
function done(words: string[], cwd: string, said = "", signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const how = { cwd, signal, timeout: 60_000, maxBuffer: AT_ONCE };
    const child = execFile(PROGRAM, words, how, (error, stdout, stderr) => {
      if ((error as NodeJS.ErrnoException | null)?.code === "ENOENT") return reject(new Error(notFound(words)));
      if (!error) return resolve(stdout.replace(CONTROL, "").trim());
      reject(new Error(stderr.replaceAll(`${PROGRAM}: `, "").trim() || because(error)));
    });
    child.stdin?.on("error", () => {}); // it was refused before it was read
    child.stdin?.end(said);
  });
}

/** The beginning of a text, as a dialog can show it. */
function shortened(text: string, most = 15): string {
  const lines = text.split("\n");
  const more = lines.length > most ? [`… and ${lines.length - most} more lines: ${PROGRAM} clean --list`] : [];
  return [...lines.slice(0, most), ...more].join("\n");
}

/** Start a marathon that goes on when this pi ends. What it complains about can be read until then. */
function startInBackground(words: string[], cwd: string): { child: ChildProcess; complaints: number } {
  const file = path.join(tmpdir(), `pi-marathon-${randomBytes(8).toString("hex")}`);
  const complaints = fs.openSync(file, "wx+", 0o600);
  fs.unlinkSync(file);
  const child = spawn(PROGRAM, words, { cwd, detached: true, stdio: ["ignore", "ignore", complaints] });
  child.on("error", () => {}); // `alive` sees it
  child.unref();
  return { child, complaints };
}

/** The code of an open gate. Only this process reads it, and only after the human chose an answer. */
function codeOf(token: string): string {
  const mac = process.platform === "darwin" ? "Library/Application Support" : ".local/state";
  const folder = path.join(process.env.XDG_STATE_HOME || path.join(homedir(), mac), "pi-marathon", "codes");
  const name = createHash("sha256").update(token).digest("hex").slice(0, 32);
  return fs.readFileSync(path.join(folder, name), "ascii").trim();
}

/** The process that holds the task, or held it last. Its number may be another's by now. */
function holderOf(task: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(path.join(task, ".marathon", "lock"), "utf8")).pid;
  } catch {
    return undefined;
  }
}

function isAlive(pid: unknown): boolean {
  try {
    return typeof pid === "number" && pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

// Words

const notFound = (words: string[]) => `${PROGRAM} is not on the PATH of this pi. ${inShell(words)}`;
const inShell = (words: string[]) => `Type in a shell: ${[PROGRAM, ...words.map(quoted)].join(" ")}`;
const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A command line as a shell would split it, with quotes but nothing else. */
function split(typed: string): string[] {
  const words = typed.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g);
  return [...words].map(([word]) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

/** The words before the first `--`, and those after it, which are for the agent. */
function atDashes(words: string[]): [string[], string[]] {
  const at = words.indexOf("--");
  return at < 0 ? [words, []] : [words.slice(0, at), words.slice(at + 1)];
}

/** Plain words, options with their values, and arguments for the agent. */
function parted(words: string[]): { plain: string[]; options: string[][]; args: string[] } {
  const [typed, args] = atDashes(words);
  const plain: string[] = [];
  const options: string[][] = [];
  const left = [...typed];
  while (left.length > 0) {
    const word = left.shift() as string;
    if (!word.startsWith("--")) plain.push(word);
    else options.push([word, ...(TAKES_VALUE.test(word) ? left.splice(0, 1) : [])]);
  }
  return { plain, options, args };
}

const nameOf = (task: string) => path.basename(task).replace(/^\d{8}-\d{6}-/, "").replace(CONTROL, "");
const cut = (text: string, most = LONGEST_SHOWN) =>
  text.length > most ? `${text.slice(0, most)}… [${text.length - most} more characters are in the log]` : text;
const oneLine = (text: string, most: number) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
};
const dollars = (cost: number) => `$${cost.toFixed(3)}`;

function summary(given: Fields): string {
  const telling = ["command", "path", "file_path", "pattern", "query", "url"].map((key) => given[key]);
  return String(telling.find((value) => typeof value === "string") ?? JSON.stringify(given));
}

// The log

/** Reads the events of a task, session after session, from the end of the log on, or from a little before. */
class Log {
  private at = { number: 0, file: "" };
  private offset = 0;

  constructor(private readonly task: string, before: number) {
    this.at = this.later().at(-1) ?? this.at;
    this.offset = this.at.file ? Math.max(0, fs.statSync(this.at.file).size - before) : 0;
  }

  /** The events that came since the last call. */
  *read(): Generator<Fields> {
    for (;;) {
      const next = this.later()[0]; // before the rest is read, so that nothing is written behind our back
      const before = this.offset;
      yield* this.rest();
      if (this.offset > before) continue;
      if (!next) return;
      this.at = next;
      this.offset = 0;
    }
  }

  private *rest(): Generator<Fields> {
    const data = bytesOf(this.at.file, this.offset);
    const whole = data.lastIndexOf("\n") + 1; // the rest of a line that is being written comes the next time
    this.offset += whole || (data.length === AT_ONCE ? data.length : 0);
    for (const line of data.toString("utf8", 0, whole).split("\n")) {
      try {
        const event = parsed(line);
        if (event?.v >= 1) yield event;
      } catch {
        // not a line of ours
      }
    }
  }

  /** The logs of later sessions, the next one first. */
  private later(): { number: number; file: string }[] {
    const runs = path.join(this.task, ".marathon", "runs");
    const found = entriesOf(runs).flatMap((run) =>
      entriesOf(path.join(runs, run.name, "events")).map(({ name }) => {
        const number = parseInt(run.name) * 1e6 + parseInt(name);
        return { number, file: path.join(runs, run.name, "events", name) };
      }),
    );
    return found.filter(({ number }) => number > this.at.number).sort((one, two) => one.number - two.number);
  }
}

function bytesOf(file: string, offset: number): Buffer {
  try {
    const fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
    try {
      const data = Buffer.alloc(Math.min(Math.max(fs.fstatSync(fd).size - offset, 0), AT_ONCE));
      return data.subarray(0, fs.readSync(fd, data, 0, data.length, offset));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return Buffer.alloc(0);
  }
}

/** JSON without anything that a terminal would act on. */
function parsed(text: string): any {
  return JSON.parse(text, (_key, value) => (typeof value === "string" ? value.replace(CONTROL, "") : value));
}

// What is shown

/** pi's own components. They are imported when they are needed, because not every pi has each of them. */
let parts: Fields = {};

async function loadParts(): Promise<void> {
  const load = async (name: string) => (await import(name)) as Fields;
  try {
    parts = { ...(await load("@earendil-works/pi-tui")), ...(await load("@earendil-works/pi-coding-agent")) };
  } catch {
    // Then there is the widget, and `pi-marathon logs`.
  }
}

/** An entry of the transcript as pi draws its own. Entries are never sent to a model. */
function drawn(shown: Shown, expanded: boolean, theme: Fields): any {
  const { AssistantMessageComponent, ToolExecutionComponent, Text, getMarkdownTheme } = parts;
  const { kind, text } = shown;
  if (kind === "said" || kind === "thought") {
    if (!AssistantMessageComponent || !getMarkdownTheme) return undefined;
    const content = kind === "said" ? [{ type: "text", text }] : [{ type: "thinking", thinking: text }];
    const message = { role: "assistant", content, stopReason: "stop" };
    return withoutSpace(new AssistantMessageComponent(message, false, getMarkdownTheme()));
  }
  if (kind === "tool" && ToolExecutionComponent) {
    const { id, name, given, failed, cwd } = shown;
    const maker = /^[a-z]+$/.test(name) ? `create${name[0].toUpperCase()}${name.slice(1)}ToolDefinition` : "";
    const ui = { requestRender: () => {} }; // the widget is drawn every second
    const tool = new ToolExecutionComponent(name, id, given, {}, parts[maker]?.(cwd), ui, cwd);
    tool.updateResult({ content: [{ type: "text", text }], isError: failed, details: detailsOf(name, given) });
    tool.setExpanded(expanded);
    return withoutSpace(tool);
  }
  const color = { border: "borderAccent", warning: "warning" }[kind as string] ?? "muted";
  return Text ? new Text(theme.fg(color, text), 1, 0) : undefined;
}

/** Around an entry pi leaves a line itself. */
function withoutSpace(component: Fields): Fields {
  const render = (width: number) => {
    const lines: string[] = component.render(width);
    return lines[0]?.trim() === "" ? lines.slice(1) : lines;
  };
  return { render, invalidate: () => component.invalidate() };
}

/** The log has no diff of an edit, but it has both texts. */
function detailsOf(name: string, given: Fields): Fields | undefined {
  const edits: Fields[] = name !== "edit" ? [] : Array.isArray(given.edits) ? given.edits : [given];
  const diffs = edits.map(({ oldText, newText }) => parts.generateDiffString?.(String(oldText), String(newText)).diff);
  return diffs.length > 0 && diffs[0] !== undefined ? { diff: diffs.join("\n") } : undefined;
}

// The marathon that this session shows

class Followed {
  status: Fields = {};
  asking: AbortController | undefined; // while a dialog of the gate is open
  asked = 0; // when the status was last asked for
  private log: Log;
  private gone: unknown; // the process that held the task last, once it is known that none does
  private readonly tools = new Map<string, Fields>();
  private said = { text: "", thinking: false };
  private state = "starting";
  private cost = 0;
  private started: { child: ChildProcess; complaints: number; at: number } | undefined;

  constructor(readonly task: string, readonly words: string[], readonly cwd: string) {
    this.log = new Log(task, 0);
  }

  /** Show what a marathon that runs already did just before. */
  rewind(): void {
    this.log = new Log(this.task, RECENT);
  }

  start(): void {
    this.state = "starting";
    this.started = { ...startInBackground([...DETACH, ...this.words], this.cwd), at: Date.now() };
  }

  /** Whether a runner works on the task, or is about to. */
  alive(): boolean {
    const holder = holderOf(this.task);
    if (holder !== this.gone && isAlive(holder)) return true;
    const { child, at = 0 } = this.started ?? {};
    const starts = child?.pid !== undefined && child.exitCode === null && child.signalCode === null;
    return starts || Date.now() - at < A_MOMENT;
  }

  /** Why the program did not run, if it refused. */
  refusal(): string {
    const { child, complaints = 0 } = this.started ?? {};
    if (child && child.pid === undefined) return notFound(this.words);
    const code = child?.exitCode;
    if (code === undefined || code === null || ENDS_WELL.includes(code)) return "";
    const data = Buffer.alloc(4096);
    const said = data.toString("utf8", 0, fs.readSync(complaints, data, 0, data.length, 0)).replace(CONTROL, "");
    return said.replaceAll(`${PROGRAM}: `, "").trim() || `${PROGRAM} ended with exit code ${code}`;
  }

  async refresh(): Promise<void> {
    this.asked = Date.now();
    const holder = holderOf(this.task);
    this.status = parsed(await done(["status", "--json", "--sessions=0", "--", this.task], this.cwd));
    this.gone = this.status.runner ? undefined : holder;
    this.cost = this.status.usage.cost;
    if (this.status.session) this.state = "running";
    if (!this.gateOpen()) this.asking?.abort(); // it was answered elsewhere
  }

  isStarting(): boolean {
    return this.state === "starting" && !this.gateOpen();
  }

  gateOpen(): boolean {
    return Boolean(this.status.gate?.offers.length);
  }

  /** Show what happened since the last time. True if the status is another one now. */
  update(show: Show): boolean {
    let boundary = false;
    for (const event of this.log.read()) {
      if (event.type !== "text" || Boolean(event.thinking) !== this.said.thinking) this.flush(show);
      this.hear(event, show);
      boundary ||= /^(session|gate)_/.test(event.type);
    }
    return boundary;
  }

  private hear(event: Fields, show: Show): void {
    const { type, id, name, text = "" } = event;
    if (type === "session_began") {
      this.state = "running";
      Object.assign(this.status, { iteration: event.iteration, phase: event.phase });
      show({ kind: "border", text: `─── ${event.emoji ?? ""} Session ${event.iteration} │ ${event.phase} ───` });
    } else if (type === "text") {
      this.said = { text: this.said.text + text, thinking: Boolean(event.thinking) };
    } else if (type === "tool_called") {
      this.tools.set(id, event);
    } else if (type === "tool_ended") {
      const given = this.tools.get(id)?.arguments ?? {};
      this.tools.delete(id);
      show({ kind: "tool", id, name, given, failed: event.failed === true, text: cut(text), cwd: this.cwd });
    } else if (type === "usage") {
      if (event.at * 1000 > this.asked) this.cost += Number(event.usage?.cost) || 0;
    } else if (type === "output" || type === "notice") {
      show({ kind: event.level === "warning" || event.level === "error" ? "warning" : "line", text: cut(text) });
    } else if (type === "check_ended") {
      show({ kind: event.met ? "line" : "warning", text: `${event.met ? "✓" : "✗"} ${name} ${event.reason ?? ""}` });
    } else if (type === "wait_began") {
      this.state = `waits ${duration(event.seconds)}: ${oneLine(event.reason, 40)}`;
    } else if (type === "gate_answered") {
      show({ kind: "line", text: `Answered: ${event.choice} (${event.by})` });
    } else if (type === "session_ended") {
      this.tools.clear();
      const facts = [duration(event.seconds), event.usage && dollars(event.usage.cost), event.ending, event.cause];
      show({ kind: "border", text: `─── ${oneLine(facts.filter(Boolean).join(" │ "), 300)} ───` });
    }
  }

  flush(show: Show): void {
    const { text, thinking } = this.said;
    this.said = { text: "", thinking: false };
    if (text.trim()) show({ kind: thinking ? "thought" : "said", text: cut(text.trim()) });
  }

  /** Such as `🔄 my-feature │ iteration 7/50 │ running │ ⏱ 12m │ $0.847`, and what happens just now. */
  lines(): string[] {
    const { iteration = 0, phase, seconds = 0, session, budget = [] } = this.status;
    const most = budget.join(" ").match(/ of (\d+) sessions?/)?.[1];
    const running = this.state === "running" && phase !== "work" ? `running ${phase}` : this.state;
    const head = [
      `🔄 ${nameOf(this.task)}`,
      `iteration ${iteration}${most ? `/${most}` : ""}`,
      this.gateOpen() ? "waits for you" : running,
      `⏱ ${duration(seconds + (session ? (Date.now() - this.asked) / 1000 : 0))}`,
      dollars(this.cost),
    ];
    const width = Math.max(20, (process.stdout.columns || 80) - 4);
    const doing = this.gateOpen() ? "/marathon-loop answers it" : this.doing();
    return [head.join(" │ "), doing].map((line) => oneLine(line, width));
  }

  private doing(): string {
    const tool = [...this.tools.values()].at(-1);
    if (!tool) return this.said.text.trim().split("\n").at(-1) || HINT;
    return `▸ ${tool.name} ${oneLine(summary(tool.arguments ?? {}), 200)} │ ${duration(Date.now() / 1000 - tool.at)}`;
  }
}

// pi

class Inside {
  private followed: Followed | undefined;
  private ticker: NodeJS.Timeout | undefined;
  private stopListening: (() => void) | undefined;
  private ui: ExtensionContext["ui"] | undefined;
  private sending: Promise<void> = Promise.resolve();
  private drawn = "";
  private over = false; // its end is being told, or its gate waits for the human
  private cwd = process.cwd();
  /** What `pi-marathon` was called with, if it started this pi. */
  private readonly given: string[] = JSON.parse(process.env.MARATHON_BARE || "[]");

  constructor(private readonly pi: ExtensionAPI) {}

  register(): void {
    const complete = (prefix: string) => completeFolder(prefix, this.cwd);
    this.command("marathon-loop", `Run a marathon here: PATH [${STOP_WITH_PI}] [OPTIONS]`, this.loop, complete);
    if (inSession() || process.env.MARATHON_CHECK) return;
    this.command("ralph", `The plain loop: ${RALPH}`, this.ralph);
    const ralph = (verb: string) => (args: string, ctx: ExtensionCommandContext) => this.ralph(`${verb} ${args}`, ctx);
    this.command("marathon-status", "Where a marathon stands: [TASK]", ralph("status"));
    this.command("marathon-pause", "Stop a marathon after its session: [TASK]", ralph("stop"));
    this.command("marathon-steer", "Send guidance to a marathon: [TASK] MESSAGE", async (args, ctx) => {
      const [, word, rest] = /^(\S*)\s*(.*)$/s.exec(args.trim()) as string[];
      const folder = typedFolder(word, ctx.cwd);
      const [named, text] = isTask(folder) ? [[folder], rest] : [[], args.trim()];
      ctx.ui.notify(await done(["steer", "--", ...named, "-"], ctx.cwd, text), "info");
    });
    this.pi.registerEntryRenderer?.<Shown>(ENTRY, ({ data }, how, theme) => data && drawn(data, how.expanded, theme));
    this.pi.on("session_start", (_event, ctx) => this.begin(ctx));
    this.pi.on("session_shutdown", (event, ctx) => this.close(event.reason === "quit", ctx));
    this.pi.on("input", ({ text, source }, ctx) => {
      // At a gate nothing runs, so the human may ask the agent of this session for advice.
      if (!this.followed || this.followed.gateOpen() || source !== "interactive" || text.startsWith("/")) return;
      this.steer(this.followed, text, false, ctx);
      return { action: "handled" as const };
    });
  }

  private async begin(ctx: ExtensionContext): Promise<void> {
    this.cwd = ctx.cwd;
    if (!this.pi.getAllTools().some(({ name }) => name === "marathon_start")) this.registerTools();
    if (!inTerminal(ctx)) return;
    await loadParts();
    if (process.env.MARATHON_BARE) ctx.ui.setStatus("marathon", WELCOME);
    if (kept.piMarathon) this.follow(new Followed(kept.piMarathon.task, kept.piMarathon.words, ctx.cwd), ctx);
  }

  private close(quits: boolean, ctx: ExtensionContext): void {
    const { task, stopsWithPi } = kept.piMarathon ?? {};
    if (this.followed) this.leave(ctx, !quits);
    if (task && stopsWithPi && quits) startInBackground(["stop", "--now", "--", task], this.cwd);
  }

  // Commands

  private loop = async (args: string, ctx: ExtensionCommandContext): Promise<void> => {
    const words = split(args);
    if (inSession()) throw new Error("a marathon is already running here");
    if (this.followed && words.length === 0) return this.again(this.followed, ctx);
    const named = words[0]?.startsWith("-") ? undefined : words.shift();
    const folder = named === undefined ? await this.chosen(ctx) : typedFolder(named, ctx.cwd);
    if (folder === undefined) return;
    if (!isTask(folder)) throw new Error(`${folder} has no instructions.md. Make a task with /scribe or /ralph start`);
    await this.run(folder, words, ctx);
  };

  /** /marathon-loop while a marathon is shown here: its gate again, or another start. */
  private async again(followed: Followed, ctx: ExtensionContext): Promise<void> {
    await followed.refresh();
    if (followed.gateOpen()) return this.gate(followed, ctx, true);
    if (!followed.alive()) followed.start();
    ctx.ui.notify(followed.lines().join("\n"), "info");
  }

  private async run(task: string, words: string[], ctx: ExtensionContext): Promise<void> {
    const [[before, forAgent], [typed, typedForAgent]] = [atDashes(this.given), atDashes(words)];
    const options = [...before, ...typed.filter((word) => word !== STOP_WITH_PI)];
    const args = [...forAgent, ...typedForAgent];
    const shown = task.startsWith(`${ctx.cwd}${path.sep}`) ? path.relative(ctx.cwd, task) : task;
    const all = ["--task", shown, ...options, ...(args.length ? ["--", ...args] : [])];
    if (!inTerminal(ctx)) throw new Error(`this pi has no terminal to show it in. ${inShell(all.slice(0, 2))}`);
    const followed = new Followed(task, all, ctx.cwd);
    await followed.refresh().catch(() => {}); // what is wrong with the task is said by the start
    this.refuseASecond();
    if (followed.alive()) followed.rewind();
    else followed.start();
    const stopsWithPi = typed.includes(STOP_WITH_PI);
    kept.piMarathon = { task, words: all, stopsWithPi };
    this.follow(followed, ctx);
    const closing = stopsWithPi ? "It stops when you close pi." : "It goes on when you close pi.";
    ctx.ui.notify(`What you type now steers ${nameOf(task)}. ${closing} /ralph stop ends it earlier.`, "info");
  }

  private refuseASecond(): void {
    if (this.followed) throw new Error(`${nameOf(this.followed.task)} is running here. Stop it first: /ralph stop`);
  }

  private async chosen(ctx: ExtensionContext): Promise<string | undefined> {
    const rows: Fields[] = parsed(await done(["list", "--json"], ctx.cwd));
    if (rows.length === 0) throw new Error("there is no task yet. Make one with /scribe, or: /ralph start NAME GOAL");
    const labels = rows.map(({ task, condition }) => `${nameOf(task)} (${condition})`);
    const label = await ctx.ui.select("Which task?", labels);
    return label === undefined ? undefined : path.resolve(ctx.cwd, rows[labels.indexOf(label)].task);
  }

  private ralph = async (args: string, ctx: ExtensionCommandContext): Promise<void> => {
    const [verb = "", ...words] = split(args);
    if (verb === "start") return this.startLoop(words, ctx);
    const task = words[0] ?? this.followed?.task;
    const one = task === undefined ? [] : ["--", task];
    const commands: Record<string, string[]> = {
      stop: ["stop", ...one],
      kill: ["kill", ...one],
      status: task === undefined ? ["list"] : ["status", ...one],
      list: ["list", "--all"],
      clean: ["clean", "--yes"],
    };
    if (!commands[verb]) throw new Error(`type one of these after /ralph: ${RALPH}`);
    // At a gate the runner may be gone already. Then to stop is to show it no longer.
    const gone = this.followed && this.followed.task === task && !this.followed.alive();
    if (gone && commands[verb][0] === "stop") return this.leave(ctx);
    if (verb === "clean") {
      const goes = await done(["clean", "--list"], ctx.cwd);
      if (goes.startsWith("Nothing")) return ctx.ui.notify(goes, "info");
      if (!(await ctx.ui.confirm("Clean up?", shortened(goes)))) return;
    }
    ctx.ui.notify(await done(commands[verb], ctx.cwd), "info");
  };

  /** /ralph start NAME GOAL, with options in between, and arguments for the agent after --. */
  private async startLoop(words: string[], ctx: ExtensionContext): Promise<void> {
    this.refuseASecond(); // before a task is made
    const { plain, options, args } = parted(words);
    const [name, ...said] = plain;
    if (!name) throw new Error("give a name: /ralph start NAME GOAL");
    const goal = said.join(" ") || (await ctx.ui.input("What should be different when it is done?"));
    if (!goal?.trim()) return;
    const known = options.flat().filter((word) => word !== STOP_WITH_PI);
    const task = await made(name, goal, ctx.cwd, known);
    const ofTheRun = options.filter(([option]) => !option.startsWith("--success")).flat();
    await this.run(task, [...ofTheRun, ...(args.length ? ["--", ...args] : [])], ctx);
  }

  private command(
    name: string,
    description: string,
    act: (args: string, ctx: ExtensionCommandContext) => Promise<void>,
    getArgumentCompletions?: (prefix: string) => { value: string; label: string }[] | null,
  ): void {
    const handler = (args: string, ctx: ExtensionCommandContext) =>
      act(args, ctx).catch((error) => ctx.ui.notify(`marathon: ${because(error)}`, "error"));
    this.pi.registerCommand(name, { description, handler, getArgumentCompletions });
  }

  // Following

  private follow(followed: Followed, ctx: ExtensionContext): void {
    this.followed = followed;
    this.ui = ctx.ui;
    this.over = false;
    this.stopListening = ctx.ui.onTerminalInput?.((data) =>
      ALT_ENTER.test(data) && this.later(followed, ctx) ? { consume: true } : undefined,
    );
    this.ticker = setInterval(() => this.tick(followed, ctx), TICK);
    this.ticker.unref();
    void this.refresh(followed, ctx);
  }

  private leave(ctx: ExtensionContext, comesBack = false): void {
    clearInterval(this.ticker);
    this.stopListening?.();
    this.followed = undefined;
    this.drawn = "";
    if (comesBack) return;
    kept.piMarathon = undefined;
    ctx.ui.setWidget(WIDGET, undefined);
  }

  private tick(followed: Followed, ctx: ExtensionContext): void {
    try {
      const due = followed.isStarting() && Date.now() - followed.asked > WHILE_STARTING;
      if (followed.update(this.show) || due) void this.refresh(followed, ctx);
      this.draw(followed, ctx);
      if (!this.over && !followed.alive()) void this.end(followed, ctx);
    } catch (error) {
      this.leave(ctx);
      ctx.ui.notify(`marathon: ${because(error)}`, "error");
    }
  }

  /** As an entry. A pi before 0.80.4 has none, so there the human sees the widget and the short lines. */
  private show: Show = (shown) => {
    if (parts.Text && typeof this.pi.registerEntryRenderer === "function") this.pi.appendEntry(ENTRY, shown);
    else if (shown.kind === "line" || shown.kind === "warning") this.ui?.notify(shown.text, "info");
  };

  private draw(followed: Followed, ctx: ExtensionContext): void {
    const [head, doing] = followed.lines();
    if (head + doing !== this.drawn) ctx.ui.setWidget(WIDGET, [head, ctx.ui.theme.fg("dim", doing)]);
    this.drawn = head + doing;
  }

  private async refresh(followed: Followed, ctx: ExtensionContext): Promise<void> {
    await followed.refresh().catch(() => {}); // the runner may not have begun the task yet
    if (followed === this.followed && followed.gateOpen()) await this.gate(followed, ctx);
  }

  /** The runner is gone: because of a gate, or because it is over. */
  private async end(followed: Followed, ctx: ExtensionContext): Promise<void> {
    this.over = true;
    const refused = followed.refusal();
    await followed.refresh().catch(() => {});
    if (this.followed !== followed) return;
    followed.update(this.show);
    followed.flush(this.show);
    if (!refused && followed.gateOpen()) return this.gate(followed, ctx);
    this.leave(ctx);
    const { condition = "not started", resume } = followed.status;
    const normal = "What you type goes to the agent of this session again.";
    const said = refused || `${nameOf(followed.task)} is ${condition}. ${normal}`;
    ctx.ui.notify(`${said}${resume ? `\nTo continue: ${resume}` : ""}`, refused ? "error" : "info");
  }

  // What the human says

  /** One message after the other, so that they arrive in the order they were typed in. */
  private steer(followed: Followed, text: string, later: boolean, ctx: ExtensionContext): void {
    const words = ["steer", ...(later ? ["--next"] : []), "--", followed.task, "-"];
    this.sending = this.sending
      .then(() => done(words, followed.cwd, text))
      .then(() => this.show({ kind: "line", text: `→ ${later ? "for the next session" : "sent"}: ${text}` }))
      .catch((error) => {
        if (!ctx.ui.getEditorText()) ctx.ui.setEditorText(text); // nothing that was typed is lost
        ctx.ui.notify(`marathon: not sent: ${because(error)}`, "error");
      });
  }

  /** Alt+Enter: what stands in the editor is for the next session. False where the key is for pi itself. */
  private later(followed: Followed, ctx: ExtensionContext): boolean {
    const text = ctx.ui.getEditorText().trim();
    if (!text || text.startsWith("/") || followed.gateOpen()) return false;
    ctx.ui.setEditorText("");
    this.steer(followed, text, true, ctx);
    return true;
  }

  /** Show the open gate, once by itself, and send what the human chooses. */
  private async gate(followed: Followed, ctx: ExtensionContext, again = false): Promise<void> {
    const { gate, waits_for: waitsFor, note } = followed.status;
    if (followed.asking || !kept.piMarathon || (!again && kept.piMarathon.asked === gate.token)) return;
    kept.piMarathon.asked = gate.token;
    const { signal } = (followed.asking = new AbortController());
    try {
      const text = [`⏸ ${waitsFor}`, gate.message, ...(gate.writes ?? []), note].filter(Boolean).join("\n");
      if (!again) this.show({ kind: "warning", text });
      const answer = await this.answer(gate, followed, ctx, signal);
      if (!answer) return;
      ctx.ui.notify(await done(answer.words, followed.cwd, answer.text), "info");
      followed.status.gate = undefined;
      if (!followed.alive() && answer.words[0] !== "cancel") followed.start();
    } catch (error) {
      if (!signal.aborted) ctx.ui.notify(`marathon: ${because(error)}`, "error");
    } finally {
      followed.asking = undefined;
      this.over = followed.gateOpen() && !followed.alive();
    }
  }

  /** The command of the answer. The first choice changes nothing, for an Enter that was meant for the editor. */
  private async answer(
    gate: Fields,
    followed: Followed,
    ctx: ExtensionContext,
    signal: AbortSignal,
  ): Promise<{ words: string[]; text: string } | undefined> {
    const offers: Offer[] = gate.offers.filter(({ choice }: Offer) => choice !== "quit" && choice !== "oversight");
    const read = gate.document && `Read ${path.basename(gate.document)} here`;
    const labels = [LATER, ...(read ? [read] : []), ...offers.map(({ label }) => label)];
    const title = `${nameOf(followed.task)} (${gate.total}): ${followed.status.waits_for}`;
    const chosen = await ctx.ui.select(title, labels, { signal });
    if (read && chosen === read) {
      const text = bytesOf(path.resolve(followed.cwd, gate.document), 0).toString("utf8").replace(CONTROL, "");
      this.show({ kind: "said", text });
      return this.answer(gate, followed, ctx, signal);
    }
    const offer = offers.find(({ label }) => label === chosen);
    if (!offer) return undefined;
    if (offer.choice === "undo") {
      await this.undo(gate, followed, ctx, signal);
      return this.answer(gate, followed, ctx, signal);
    }
    const text = offer.words === "none" ? "" : await ctx.ui.input(offer.ask, "", { signal });
    if (text === undefined || (offer.words === "required" && !text.trim())) return undefined;
    const heavy = ["cancel", "accept", "loop"].includes(offer.choice);
    if (heavy && !(await ctx.ui.confirm("Are you sure?", offer.label, { signal }))) return undefined;
    return { words: commandOf(offer, followed.task, gate.token, text), text };
  }

  /** Show what changed meanwhile, and undo the files that the human ticks. The agent's are ticked already. */
  private async undo(gate: Fields, followed: Followed, ctx: ExtensionContext, signal: AbortSignal): Promise<void> {
    const words = (...more: string[]) => ["undo", ...more, "--gate", gate.token, "--", followed.task];
    const kept = parsed(await done(words("--json"), followed.cwd));
    this.show({ kind: "line", text: cut(kept.diff || "No file is changed any more.") });
    const free: Fields[] = kept.files.filter((file: Fields) => !file.fixed);
    for (const { name, fixed } of kept.files) if (fixed) ctx.ui.notify(`${name} stays as it is. ${fixed}`, "info");
    const ticked = new Set<string>(free.filter((file) => file.by_agent).map((file) => file.name));
    for (;;) {
      const rows = free.map(({ name, by_agent: byAgent }) => {
        const box = ticked.has(name) ? "[x]" : "[ ]";
        return `${box} ${name}${byAgent ? " (a tool call of the agent wrote it)" : ""}`;
      });
      const undoes = `Undo what is ticked (${ticked.size}); a patch is kept`;
      const labels = [NOTHING, ...rows, ...(ticked.size > 0 || kept.back_to ? [undoes] : [])];
      const chosen = await ctx.ui.select("Undo which files?", labels, { signal });
      if (chosen === undefined || chosen === NOTHING) return;
      const name: string | undefined = free[rows.indexOf(chosen)]?.name;
      if (name === undefined) break;
      if (!ticked.delete(name)) ticked.add(name);
    }
    const back = kept.back_to && (await ctx.ui.confirm("Move the branch back?", `To ${kept.back_to}`, { signal }));
    if (ticked.size === 0 && !back) return;
    const code = ["--code", codeOf(gate.token), ...(back ? ["--branch"] : [])];
    ctx.ui.notify(await done([...words(...code), ...ticked], followed.cwd), "info");
    if (!followed.alive()) followed.start(); // only a runner undoes
  }

  // The agent's tools

  private registerTools(): void {
    this.pi.registerTool({
      name: "marathon_start",
      label: "Marathon start",
      description: "Start a loop of fresh sessions over a checklist, in the background. Asks the human first.",
      parameters: Type.Object({
        name: Type.String({ description: "A short name, such as fix-types" }),
        task: Type.String({ description: "What should be different at the end, and how to check it" }),
        maxIterations: Type.Optional(Type.Integer({ minimum: 1, description: "Sessions at most; 100 if omitted" })),
        reflectEvery: Type.Optional(Type.Integer({ minimum: 0, description: "Look back after so many sessions" })),
      }),
      execute: async (_id, { name, task, maxIterations = 100, reflectEvery = 0 }, _signal, _onUpdate, ctx) => {
        if (!ctx.hasUI) throw new Error("there is no human to ask, so no marathon was started");
        this.refuseASecond();
        const sessions = `Up to ${maxIterations} sessions in the background:\n${task}`;
        if (!(await ctx.ui.confirm(`Start the loop ${name}?`.replace(CONTROL, ""), sessions.replace(CONTROL, "")))) {
          throw new Error("the human said no");
        }
        const folder = await made(name, task, ctx.cwd);
        await this.run(folder, [`--max-iterations=${maxIterations}`, `--reflect-every=${reflectEvery}`], ctx);
        return reply(`Started ${folder}. It runs by itself and the human sees it. Do not wait for it.`);
      },
    });
    this.pi.registerTool({
      name: "marathon_status",
      label: "Marathon status",
      description: "Where the marathons of this project stand, or one of them.",
      parameters: Type.Object({ task: Type.Optional(Type.String({ description: "Its path or a part of its name" })) }),
      execute: async (_id, { task }, signal, _onUpdate, ctx) =>
        reply(await done(task ? ["status", "--", task] : ["list"], ctx.cwd, "", signal)),
    });
  }
}

const reply = (text: string) => ({ content: [{ type: "text" as const, text }], details: undefined });

/** Make a task for the plain loop, without starting it. The program refuses options it does not know before that. */
async function made(name: string, goal: string, cwd: string, options: string[] = []): Promise<string> {
  return JSON.parse(await done(["repeat", "--no-start", "--json", ...options, "--", name, "-"], cwd, goal)).task;
}

/** The answer as a command. It carries the gate's token and its code, so it answers exactly this gate. */
function commandOf({ choice, phase }: Offer, task: string, token: string, text: string): string[] {
  const gate = ["--gate", token, ...(choice === "cancel" ? [] : ["--code", codeOf(token)])];
  const why = text.trim() ? ["--message=-"] : [];
  const commands: Record<string, string[]> = {
    continue: ["approve", ...why],
    redo: ["redo", ...why, ...(phase ? ["--phase", phase] : [])],
    loop: ["redo", "--loop", ...why],
    accept: ["accept", "--yes", ...why],
    cancel: ["cancel", "--yes"],
    answer: ["answer"],
  };
  return [...commands[choice], ...gate, "--", task, ...(choice === "answer" ? [text.trim() && "-"] : [])];
}

// Paths

const isTask = (folder: string) => fs.existsSync(path.join(folder, "instructions.md"));
const typedFolder = (typed: string, cwd: string) => path.resolve(cwd, typed.replace(/^~(?=$|\/)/, homedir()));

function subfolders(folder: string): string[] {
  const folders = entriesOf(folder).filter((entry) => entry.isDirectory() && entry.name !== "node_modules");
  return folders.map((entry) => entry.name);
}

/** Whether there is a task in or below a folder. It looks into few folders, because it runs while the human types. */
function leadsToTask(folder: string, depth: number, budget: { left: number }): boolean {
  if (isTask(folder)) return true;
  if (depth === 0 || budget.left-- <= 0) return false;
  return subfolders(folder).some((name) => leadsToTask(path.join(folder, name), depth - 1, budget));
}

function completeFolder(prefix: string, cwd: string): { value: string; label: string }[] | null {
  const typed = prefix.replace(/^["']/, "");
  const parent = typed.slice(0, typed.lastIndexOf("/") + 1);
  const folder = typedFolder(parent || ".", cwd);
  const budget = { left: 2000 };
  // Enter would take the completion instead of sending the command.
  if (isTask(typedFolder(prefix, cwd))) return null;
  const found = subfolders(folder)
    .filter((name) => name.startsWith(typed.slice(parent.length)) && leadsToTask(path.join(folder, name), 3, budget))
    .map((name) => (isTask(path.join(folder, name)) ? name : `${name}/`));
  return found.length > 0 ? found.map((label) => ({ value: parent + label, label })) : null;
}
