/** The marathon that this session shows: its log as entries, its status as two lines. */
import type { ChildProcess } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { CONTROL, duration } from "../marathon-loop.ts";
import type { Fields } from "../marathon-loop.ts";
import type { Show } from "./drawing.ts";
import { Log, parsed } from "./log.ts";
import { PROGRAM, done, holderOf, isAlive, notFound, startInBackground } from "./program.ts";

const DETACH = ["--detach"]; // the program checks everything, goes on without a terminal, and this start ends
const A_MOMENT = 1000; // milliseconds, within which a program that was started holds its task or is gone
const RECENT = 32 * 1024; // bytes of the log that are shown of a marathon that runs already
const LONGEST_SHOWN = 16 * 1024; // characters of one entry; all of it stands in the log
const HINT = "Enter steers │ Alt+Enter: for the next session │ /ralph stop";
const ENDS_WELL = [0, 3, 4, 5]; // completed, waits for a human, limit, stuck: `status` says which

export const nameOf = (task: string) => path.basename(task).replace(/^\d{8}-\d{6}-/, "").replace(CONTROL, "");
const cut = (text: string, most = LONGEST_SHOWN) =>
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

export class Followed {
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
