/** The marathon that this session shows: its log as entries, its status as two lines. */
import type { ChildProcess } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { CONTROL, duration } from "../marathon-loop.ts";
import type { Fields } from "../marathon-loop.ts";
import { begin, end, grow } from "./drawing.ts";
import type { Show, Shown } from "./drawing.ts";
import { Log, parsed } from "./log.ts";
import type { Position } from "./log.ts";
import { PROGRAM, done, holderOf, isAlive, notFound, startInBackground } from "./program.ts";

const DETACH = ["--detach"]; // the program checks everything, goes on without a terminal, and this start ends
const A_MOMENT = 1000; // milliseconds, within which a program that was started holds its task or is gone
const RECENT = 32 * 1024; // bytes of the log that are shown of a marathon that runs already
const LONGEST_SHOWN = 16 * 1024; // characters of one entry; all of it stands in the log
const HINT = "Enter tells the agent │ Alt+Enter: for the next session │ /ralph stop";
const ENDS_WELL = [0, 3, 4, 5]; // completed, waits for a human, limit, stuck: `status` says which

export const nameOf = (task: string) => path.basename(task).replace(/^\d{8}-\d{6}-/, "").replace(CONTROL, "");
export const cut = (text: string, most = LONGEST_SHOWN) =>
  text.length > most ? `${text.slice(0, most)}… [${text.length - most} more characters are in the log]` : text;
export const oneLine = (text: string, most: number) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
};
const dollars = (cost: number) => `$${cost.toFixed(3)}`;

function summary(given: Fields): string {
  const telling = ["command", "path", "file_path", "pattern", "query", "url"].map((key) => given[key]);
  return String(telling.find((value) => typeof value === "string") ?? JSON.stringify(given));
}

/** What a Followed knows of its log. After /reload another one goes on from there. */
export type Bookmark = { position: Position; tools: [string, Fields][]; said: Said };
type Said = { text: string; thinking: boolean; block?: string };

export class Followed {
  status: Fields = {};
  grew = false; // a block of the transcript, since it was drawn last
  asking: AbortController | undefined; // while a dialog of the gate is open
  asked = 0; // when the status was last asked for
  private log: Log;
  private gone: unknown; // the process that held the task last, once it is known that none does
  private tools = new Map<string, Fields>();
  private said: Said = { text: "", thinking: false };
  private state = "starting";
  private cost = 0;
  private worked = 0; // seconds, before the session that runs
  private since: number | undefined; // when that began
  private latest = 0; // seconds that were shown
  private started: { child: ChildProcess; complaints: number; at: number } | undefined;

  constructor(readonly task: string, readonly words: string[], readonly cwd: string) {
    this.log = new Log(task, 0);
  }

  /** Show what a marathon that runs already did just before. */
  rewind(): void {
    this.log = new Log(this.task, RECENT);
  }

  get bookmark(): Bookmark {
    return { position: this.log.position, tools: [...this.tools], said: this.said };
  }

  set bookmark({ position, tools, said }: Bookmark) {
    this.log.position = position;
    this.tools = new Map(tools);
    this.said = said;
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
    const { session, seconds, usage } = this.status;
    this.cost = usage.cost;
    this.worked = seconds - (session?.seconds ?? 0);
    // The log knows the beginning to the millisecond, the status to the second.
    this.since = session ? (this.since ?? this.asked - session.seconds * 1000) : undefined;
    if (session) this.state = "running";
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
    const isNews = event.at * 1000 > this.asked; // to the status
    if (type === "session_began") {
      this.state = "running";
      if (isNews) this.since = event.at * 1000;
      Object.assign(this.status, { iteration: event.iteration, phase: event.phase });
      show({ kind: "border", text: `─── ${event.emoji ?? ""} Session ${event.iteration} │ ${event.phase} ───` });
    } else if (type === "text") {
      this.say(text, Boolean(event.thinking), show);
    } else if (type === "tool_called") {
      const given = event.arguments ?? {};
      const shown: Shown = { kind: "tool", id, name, given, text: "", cwd: this.cwd, runs: true };
      this.tools.set(id, { ...event, shown, block: begin(shown, show) });
      this.grew = true;
    } else if (type === "tool_updated") {
      const { shown, block } = this.tools.get(id) ?? {};
      if (block) grow(block, { ...shown, text: `…\n${text}` });
      this.grew = true;
    } else if (type === "tool_ended") {
      const { shown, block } = this.tools.get(id) ?? { shown: { kind: "tool", id, name, given: {}, cwd: this.cwd } };
      this.tools.delete(id);
      const ended = { text: cut(text), failed: event.failed === true, diff: cut(event.diff ?? ""), runs: false };
      end(block, { ...shown, ...ended }, show);
      this.grew = true;
    } else if (type === "usage") {
      if (isNews) this.cost += Number(event.usage?.cost) || 0;
    } else if (type === "output" || type === "notice") {
      show({ kind: event.level === "warning" || event.level === "error" ? "warning" : "line", text: cut(text) });
    } else if (type === "check_ended") {
      show({ kind: event.met ? "line" : "warning", text: `${event.met ? "✓" : "✗"} ${name} ${event.reason ?? ""}` });
    } else if (type === "wait_began") {
      this.state = `waits ${duration(event.seconds)}: ${oneLine(event.reason, 40)}`;
    } else if (type === "gate_answered") {
      show({ kind: "line", text: `Answered: ${event.choice} (${event.by})` });
    } else if (type === "session_ended") {
      if (isNews && this.since !== undefined) this.worked += event.seconds; // else the status counts it already
      if (isNews) this.since = undefined;
      for (const { shown, block } of this.tools.values()) {
        end(block, { ...shown, text: "It did not end.", failed: true, runs: false }, show);
      }
      this.tools.clear();
      const facts = [duration(event.seconds), event.usage && dollars(event.usage.cost), event.ending, event.cause];
      show({ kind: "border", text: `─── ${oneLine(facts.filter(Boolean).join(" │ "), 300)} ───` });
    }
  }

  /** A piece of what the agent says. It stands in the transcript at once. */
  private say(piece: string, thinking: boolean, show: Show): void {
    const text = this.said.text + piece;
    this.said = { ...this.said, text, thinking };
    if (!text.trim()) return;
    const shown: Shown = { kind: thinking ? "thought" : "said", text: cut(text.trim()) };
    if (this.said.block) grow(this.said.block, shown);
    else this.said.block = begin(shown, show);
    this.grew = true;
  }

  flush(show: Show): void {
    const { text, thinking, block } = this.said;
    this.said = { text: "", thinking: false };
    if (text.trim()) end(block, { kind: thinking ? "thought" : "said", text: cut(text.trim()) }, show);
  }

  /** The time that sessions worked. A status is a little older than the log, so it could go back. */
  private seconds(): number {
    const now = this.worked + (this.since === undefined ? 0 : (Date.now() - this.since) / 1000);
    return (this.latest = Math.max(this.latest, now));
  }

  /** Such as `🔄 my-feature │ iteration 7/50 │ running │ ⏱ 12m │ $0.847`, and what happens just now. */
  lines(): string[] {
    const { iteration = 0, phase } = this.status;
    const running = this.state === "running" && phase !== "work" ? `running ${phase}` : this.state;
    const head = [
      `🔄 ${nameOf(this.task)}`,
      `iteration ${iteration}${this.most ? `/${this.most}` : ""}`,
      this.gateOpen() ? "waits for you" : running,
      `⏱ ${duration(this.seconds())}`,
      dollars(this.cost),
    ];
    const width = Math.max(20, (process.stdout.columns || 80) - 4);
    const doing = this.gateOpen() ? "/marathon-loop answers it" : this.doing();
    return [head.join(" │ "), doing].map((line) => oneLine(line, width));
  }

  /** Such as `ralph: my-feature (7/50)`, for pi's status line. */
  short(): string {
    const { iteration = 0 } = this.status;
    return `ralph: ${nameOf(this.task)} (${iteration}${this.most ? `/${this.most}` : ""})`;
  }

  /** The number of the last session that is allowed. */
  private get most(): string | undefined {
    return (this.status.budget ?? []).join(" ").match(/ of (\d+) sessions?/)?.[1];
  }

  private doing(): string {
    const tool = [...this.tools.values()].at(-1);
    if (!tool) return this.said.text.trim().split("\n").at(-1) || HINT;
    return `▸ ${tool.name} ${oneLine(summary(tool.arguments ?? {}), 200)} │ ${duration(Date.now() / 1000 - tool.at)}`;
  }
}
