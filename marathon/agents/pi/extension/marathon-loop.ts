/**
 * pi-marathon inside pi: the /marathon-* commands, the agent's two tools, and the end of a session in the terminal UI.
 *
 * The runner and this extension share one JSON file, <states>/<MARATHON_RUNNER_ID>.json. While pi lives, only this
 * extension writes it. Only types are imported from pi, so the extension loads in every pi since 0.74. inside.ts starts
 * and shows a marathon in a pi of the human.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

export type Fields = Record<string, any>;
type Handler = (event: Fields, ctx: ExtensionContext) => void;
type Budget = { field: string; flag: string; limit: number; used: number; warnAt: number; warned: boolean };

const HELLO = "pi-marathon:loaded";
const COMPLETE_MARK = "<loop-complete>";
const RUNNER_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
const ESCAPE_KEY = /^\x1b(\[27[;:\d]*u)?$/;
export const CONTROL = /\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const LONGEST_TEXT = 64 * 1024;
const [TAIL, LONGEST_TAIL] = [5, 1000]; // lines and characters of what a running call has printed
const NOTHING_USED = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0, turns: 0, toolCalls: 0 };
const TOOL_GRACE = 10; // seconds that a tool call may go on when the time is over
const LONGEST_TICK = 2; // seconds; a longer pause between two ticks means that pi was suspended
const CONTINUES = "The marathon continues when this exchange is over";
const HOLDS = "The marathon continues when your line is sent or cleared, or after 30 s without a key";
const PATIENCE = 30_000; // milliseconds without a key, after which a line in the editor holds the session no longer
const CLEARED = 2_000; // the same for an empty editor; a command that was sent from it may have opened a dialog
const NOT_A_KEY = /^\x1b(\[[<?IO]|\]|P)/; // the mouse, the focus, and what the terminal answers

export default function (pi: ExtensionAPI): void {
  if (loadedTwice(pi, HELLO)) return;
  const state = runnerState();
  if (!state) return;
  const marathon = new Marathon(pi, state);
  // Without a task there is no marathon, so the agent gets no tools for one. Before the first session the runner starts
  // pi to check whether another extension registers the same tools.
  if (inSession()) marathon.registerCommands();
  if (inSession() || process.env.MARATHON_CHECK) registerTools(pi, state);
  marathon.listen();
}

/** The user may have installed a copy beside the runner's. pi does not start if both register the same tools. */
export function loadedTwice(pi: ExtensionAPI, hello: string): boolean {
  const question = { taken: false };
  pi.events.emit(hello, question);
  if (question.taken) return true;
  const forget = pi.events.on(hello, (asked) => void ((asked as typeof question).taken = true));
  pi.on("session_shutdown", () => forget());
  return false;
}

// Files

class RunnerState {
  constructor(readonly id: string, readonly file: string) {}

  read(): Fields | undefined {
    try {
      const value = JSON.parse(fs.readFileSync(this.file, "utf8"));
      return value !== null && typeof value === "object" ? value : undefined;
    } catch {
      return undefined;
    }
  }

  /** Change some fields and keep all others. */
  update(changes: Fields): void {
    const before = this.read();
    if (!before) throw new Error("the runner of this session is gone, so nothing was recorded");
    writeWhole(this.file, `${JSON.stringify({ ...before, ...changes }, null, 2)}\n`);
  }
}

function statesFolder(): string {
  return process.env.PI_MARATHON_STATES || path.join(homedir(), ".pi", "marathon-states");
}

function runnerState(): RunnerState | undefined {
  const id = process.env.MARATHON_RUNNER_ID ?? "";
  return RUNNER_ID.test(id) ? new RunnerState(id, path.join(statesFolder(), `${id}.json`)) : undefined;
}

/** Whether this pi is the agent of a marathon. */
export const inSession = () => typeof runnerState()?.read()?.taskDir === "string";

function writeWhole(file: string, text: string): void {
  const temporary = path.join(path.dirname(file), `.${path.basename(file)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    fs.writeFileSync(temporary, text, { mode: 0o600, flag: "wx", flush: true });
    fs.renameSync(temporary, file);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
}

/** Each message is a file. The names sort in the order of sending. */
function putInInbox(taskDir: string, message: Fields): void {
  const name = `0${Date.now()}000000-${randomBytes(4).toString("hex")}.json`;
  const body = { text: "", to: "", choice: "", phase: null, now: false, ...message };
  fs.mkdirSync(inboxOf(taskDir), { recursive: true, mode: 0o700 });
  writeWhole(path.join(inboxOf(taskDir), name), JSON.stringify(body));
}

const inboxOf = (taskDir: string) => path.join(homeOf(taskDir), "inbox");

/** Where we keep what belongs to no project. */
function stateFolder(): string {
  const usual = process.platform === "darwin" ? "Library/Application Support" : ".local/state";
  return path.join(process.env.XDG_STATE_HOME || path.join(homedir(), usual), "pi-marathon");
}

/** Where the runner keeps what it knows of a task. */
export function homeOf(taskDir: string): string {
  const key = createHash("sha256").update(fs.realpathSync(taskDir)).digest("hex").slice(0, 32);
  return path.join(stateFolder(), "tasks", key);
}

/** The entries of a folder that are not hidden. Empty if the folder cannot be read. */
export function entriesOf(folder: string): fs.Dirent[] {
  try {
    return fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => !entry.name.startsWith("."));
  } catch {
    return [];
  }
}

// Words

export function because(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(CONTROL, "");
}

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))}s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h ${String(minutes % 60).padStart(2, "0")}m`;
}

/** An amount of a budget, as marathon/core/budgets.py says it. */
function said(counter: string, amount: number): string {
  if (counter === "cost") return `$${amount.toFixed(2)}`;
  return counter === "tokens" ? `${Math.round(amount)} tokens` : `${duration(amount)} of working time`;
}

const tokensOf = (usage: Fields) => usage.input + usage.output + usage.cacheRead + usage.cacheWrite;

function proposal(taskDir: string): string {
  try {
    const { state, phase, note } = JSON.parse(fs.readFileSync(path.join(taskDir, "STATE.json"), "utf8"));
    return `${state}, ${phase}${note ? ` (${note})` : ""}`;
  } catch (error) {
    return `not readable: ${because(error)}`;
  }
}

function textIn(content: unknown): string {
  const parts = Array.isArray(content) ? content : [];
  return parts.flatMap((part) => (part?.type === "text" ? [String(part.text)] : [])).join("\n");
}

/** Whether a message has the mark of completion on a line of its own. */
function saysComplete(content: unknown): boolean {
  return textIn(content).split("\n").some((line) => line.trim() === COMPLETE_MARK);
}

/** Cut a text that is too long for a line of the log, and say so. */
function bounded(_key: string, value: unknown): unknown {
  const left = typeof value === "string" ? value.length - LONGEST_TEXT : 0;
  return left > 0 ? `${(value as string).slice(0, LONGEST_TEXT)}… [${left} more characters were left out]` : value;
}

// The agent's tools

function registerTools(pi: ExtensionAPI, state: RunnerState): void {
  const recorded = (then: string) => {
    const text = `Recorded. ${then} If you have not done so, write STATE.json as "running" in this phase. Then stop.`;
    return { content: [{ type: "text" as const, text }], details: undefined, terminate: true };
  };
  pi.registerTool({
    name: "marathon_wait",
    label: "Marathon wait",
    description: "Ask for a pause before the next session, for example until CI has finished. Ends this session.",
    promptSnippet: "Pause the marathon for 1 to 60 minutes before its next session",
    parameters: Type.Object({
      minutes: Type.Number({ description: "1 to 60; fractions are allowed" }),
      reason: Type.String({ description: "What the marathon waits for" }),
    }),
    async execute(_id, { minutes, reason }) {
      if (!(minutes >= 1 && minutes <= 60)) throw new Error(`minutes must be 1 to 60, not ${minutes}`);
      state.update({ waitSeconds: minutes * 60, waitReason: reason });
      return recorded(`The next session starts in ${minutes} minutes.`);
    },
  });
  pi.registerTool({
    name: "human_feedback",
    label: "Human feedback",
    description: "Ask the human what only they can answer. Ends this session. The next session gets the answer.",
    promptSnippet: "Ask the human a question. The next session gets the answer",
    parameters: Type.Object({ question: Type.String({ description: "With everything the human needs to answer it" }) }),
    async execute(_id, { question }) {
      if (!question.trim()) throw new Error("the question is empty");
      state.update({ feedbackQuestion: question });
      return recorded("The human is asked, and the next session gets the answer.");
    },
  });
}

// One session

class Marathon {
  private facts: Fields = {};
  private usage: Fields = { ...NOTHING_USED };
  private counted = 0; // of the entries of pi's session
  private seconds = 0;
  private ticked = Date.now();
  private limit: string | undefined; // the option of the budget that is used up
  private aborted = false; // because of it
  private called = new Map<string, number>();
  private printed = new Map<string, string>(); // the last lines of running calls that are not logged yet
  private streamed = ""; // the last piece of the message that comes
  private last: { stopReason?: string; errorMessage?: string; saidComplete?: boolean } = {};
  private held: "aborted" | "typing" | undefined;
  private escaped = false;
  private lastKey = 0;
  private ended = false;
  private complained = false;
  private drawn = "";
  private ticker: NodeJS.Timeout | undefined;
  private settling: NodeJS.Timeout | undefined;

  constructor(private readonly pi: ExtensionAPI, private readonly state: RunnerState) {}

  registerCommands(): void {
    this.command("marathon-status", "Show where it stands", (_args, ctx) => ctx.ui.notify(this.report(), "info"));
    this.command("marathon-steer", "Send guidance to the next session", (args, ctx) => this.steer(args, ctx));
    this.command("marathon-pause", "Pause the marathon after this session", (_args, ctx) => {
      putInInbox(this.facts.taskDir, { kind: "stop", to: this.state.id });
      ctx.ui.notify("The marathon pauses after this session.", "info");
    });
  }

  listen(): void {
    this.on("session_start", (_event, ctx) => this.begin(ctx));
    this.on("session_shutdown", (_event, ctx) => this.close(ctx));
    this.on("agent_start", () => {
      clearTimeout(this.settling);
      this.held = undefined;
      this.escaped = false;
    });
    this.on("message_update", ({ assistantMessageEvent }, ctx) => this.stream(assistantMessageEvent, ctx));
    this.on("message_end", ({ message }, ctx) => this.hear(message, ctx));
    this.on("tool_execution_start", ({ toolCallId: id, toolName: name, args }, ctx) => {
      this.usage.toolCalls++;
      this.called.set(id, Date.now());
      this.log(ctx, "tool_called", { id, name, arguments: args ?? {} });
    });
    this.on("tool_execution_update", ({ toolCallId: id, partialResult }) => {
      const text = textIn(partialResult?.content).trimEnd().slice(-LONGEST_TAIL);
      if (text) this.printed.set(id, text.split("\n").slice(-TAIL).join("\n"));
    });
    this.on("tool_execution_end", ({ toolCallId: id, toolName: name, result, isError }, ctx) => {
      this.printed.delete(id);
      const seconds = (Date.now() - (this.called.get(id) ?? Date.now())) / 1000;
      this.called.delete(id);
      const [text, diff] = [textIn(result?.content), String(result?.details?.diff ?? "")];
      this.log(ctx, "tool_ended", { id, name, text, failed: isError === true, seconds, diff });
    });
    // Not guarded: pi blocks a tool whose handler failed.
    const on = this.pi.on as (event: string, handler: (event: Fields, ctx: ExtensionContext) => unknown) => void;
    on.call(this.pi, "tool_call", ({ toolName }) => this.refusal(String(toolName)));
    // The next session has an empty context, and a human may take hours: a warm cache is of no use to either.
    on.call(this.pi, "cache_warming_decision", (_event, ctx) => (ctx.isIdle() ? { action: "stop" } : undefined));
    // The tool calls of the turn before are done, and the next request is not sent yet.
    this.on("turn_start", (_event, ctx) => this.limit && this.abort(ctx));
    this.on("session_before_compact", ({ reason }, ctx) => {
      clearTimeout(this.settling);
      this.log(ctx, "compaction_began", { reason: String(reason ?? "") });
    });
    this.on("session_compact", ({ compactionEntry }, ctx) => {
      this.countEntries(ctx);
      this.log(ctx, "compaction_ended", { before: compactionEntry?.tokensBefore ?? 0 });
    });
    this.on("session_compact_failed", ({ errorMessage }, ctx) => {
      this.log(ctx, "compaction_ended", { error: String(errorMessage) });
    });
    // agent_settled came with entry renderers (0.80.4). In older versions a retry or a compaction may follow agent_end
    // without notice, so we wait and see whether the agent starts again.
    if (typeof this.pi.registerEntryRenderer === "function") {
      this.on("agent_settled", (_event, ctx) => this.settle(ctx));
    } else {
      this.on("agent_end", (_event, ctx) => this.settleLater(ctx));
      this.on("session_compact", (_event, ctx) => this.settleLater(ctx));
    }
  }

  private begin(ctx: ExtensionContext): void {
    this.facts = this.state.read() ?? {};
    const { taskDir, phase, iteration, run, usage, worked } = this.facts;
    // In rpc mode one pi process serves many sessions. Its children must see the present one.
    for (const [name, value] of Object.entries({ TASK_DIR: taskDir, PHASE: phase, ITERATION: iteration, RUN: run })) {
      if (value !== undefined && value !== null) process.env[`MARATHON_${name}`] = String(value);
    }
    // After /new or /reload it is still the same session of the marathon.
    Object.assign(this.usage, NOTHING_USED, usage);
    this.seconds = Number(worked) || 0;
    this.ticked = Date.now();
    this.limit = undefined;
    this.aborted = false;
    this.counted = ctx.sessionManager.getEntries().length;
    if (taskDir) {
      this.name(ctx);
      this.ticker = setInterval(() => this.guarded(ctx, () => this.tick(ctx)), 1000);
      this.ticker.unref();
    }
    if (!inTerminal(ctx)) return;
    if (!taskDir) return;
    ctx.ui.setStatus("marathon", "marathon: running");
    ctx.ui.onTerminalInput?.((data) => {
      this.escaped ||= ESCAPE_KEY.test(data);
      if (!NOT_A_KEY.test(data)) this.lastKey = Date.now();
      return undefined;
    });
    this.draw(ctx);
  }

  private tick(ctx: ExtensionContext): void {
    const now = Date.now();
    this.seconds += Math.min((now - this.ticked) / 1000, LONGEST_TICK);
    this.ticked = now;
    this.countEntries(ctx);
    this.weigh(ctx);
    for (const [id, text] of this.printed) this.log(ctx, "tool_updated", { id, text });
    this.printed.clear();
    const time: Budget | undefined = this.facts.allowance?.seconds;
    const over = time ? time.used + this.seconds - time.limit : -1;
    // Waiting for a tool call costs no money, but it costs time.
    if (over >= TOOL_GRACE || (over >= 0 && this.called.size === 0)) this.abort(ctx);
    if (!inTerminal(ctx)) return;
    if (process.stdin.isRaw === false) this.lastKey = now; // the human's own editor (Ctrl+G) has the terminal
    const patience = ctx.ui.getEditorText().trim() ? PATIENCE : CLEARED;
    const left = this.held === "typing" && ctx.isIdle() && !ctx.hasPendingMessages();
    if (left && now - this.lastKey >= patience) this.settle(ctx);
    this.draw(ctx);
  }

  /** Warn once when a budget is nearly used up, and notice when one is. */
  private weigh(ctx: ExtensionContext): void {
    const spent: Fields = { cost: this.usage.cost, tokens: tokensOf(this.usage), seconds: this.seconds };
    for (const [counter, budget] of Object.entries<Budget>(this.facts.allowance ?? {})) {
      const used = budget.used + spent[counter];
      if (used >= budget.limit) this.limit ??= budget.flag;
      else if (used >= budget.warnAt && !budget.warned) this.warn(budget, counter, used, ctx);
    }
  }

  /** A budget is used up, so the session ends here. */
  private abort(ctx: ExtensionContext): void {
    if (this.ended) return;
    if (ctx.isIdle()) return this.settle(ctx);
    if (this.aborted) return;
    this.aborted = true;
    this.state.update({ limit: this.limit });
    ctx.abort();
  }

  private warn(budget: Budget, counter: string, used: number, ctx: ExtensionContext): void {
    budget.warned = true;
    if (!inTerminal(ctx)) return; // the runner tells it
    const text = `${said(counter, used)} of ${said(counter, budget.limit)} (${budget.flag}) are used.`;
    this.log(ctx, "notice", { text, level: "warning" });
    ctx.ui.notify(text, "warning");
    this.state.update({ warned: [...(this.state.read()?.warned ?? []), budget.field] });
  }

  /** So that the human finds this session in `pi -r`, and the runner can name it in the records of the task. */
  private name(ctx: ExtensionContext): void {
    const { taskDir, phase, iteration, run } = this.facts;
    const again = run > 1 ? ` (run ${run})` : "";
    this.pi.setSessionName(`${path.basename(taskDir)} · ${phase} · ${iteration}${again}`.replace(CONTROL, ""));
    this.state.update({ sessionId: ctx.sessionManager.getSessionId() });
  }

  private hear(message: Fields, ctx: ExtensionContext): void {
    const { role, content, stopReason, errorMessage } = message;
    // The first message is the prompt, which has a file of its own.
    if (role === "user" && this.usage.turns > 0) {
      this.log(ctx, "notice", { text: `→ typed: ${textIn(content)}`, level: "info" });
    }
    if (role === "toolResult" && message.usage) this.count(message, ctx); // of models that the tool asked
    if (role !== "assistant") return;
    if (this.streamed && !this.streamed.endsWith("\n")) this.log(ctx, "text", { text: "\n", thinking: false });
    for (const part of Array.isArray(content) && !this.streamed ? content : []) {
      if (part.type === "text") this.log(ctx, "text", { text: `${part.text}\n`, thinking: false });
      if (part.type === "thinking") this.log(ctx, "text", { text: `${part.thinking}\n`, thinking: true });
    }
    this.streamed = "";
    this.count(message, ctx);
    if (stopReason === "error") this.log(ctx, "notice", { text: `pi: ${errorMessage}`, level: "warning" });
    this.last = { stopReason, errorMessage, saidComplete: stopReason === "stop" && saysComplete(content) };
  }

  /** A piece of the message that comes, so that whoever reads the log need not wait for its end. */
  private stream({ type, delta }: Fields, ctx: ExtensionContext): void {
    const [, kind, step] = /^(text|thinking)_(delta|end)$/.exec(type) ?? [];
    if (!kind) return;
    this.streamed = step === "end" ? "\n" : delta;
    this.log(ctx, "text", { text: this.streamed, thinking: kind === "thinking" });
  }

  /** What pi used beside messages stands in entries of their own: compactions, summaries, caches that were kept warm. */
  private countEntries(ctx: ExtensionContext): void {
    const entries: Fields[] = ctx.sessionManager.getEntries().slice(this.counted);
    this.counted += entries.length;
    for (const entry of entries) if (entry.usage) this.count(entry, ctx);
  }

  /** Add what a message or an entry used to the session's sum, and log it. */
  private count(entry: Fields, ctx: ExtensionContext): void {
    const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cost } = entry.usage ?? {};
    const turn = entry.role === "assistant";
    const used: Fields = { input, output, cacheRead, cacheWrite, cost: cost?.total ?? 0, turns: turn ? 1 : 0 };
    for (const [kind, amount] of Object.entries(used)) this.usage[kind] += amount;
    if (turn) this.usage.model = used.model = `${entry.provider}/${entry.model}`;
    this.log(ctx, "usage", { usage: used });
    this.weigh(ctx);
  }

  /** Append an event as marathon/core/events.py defines it. If pi has no terminal, the runner does that. */
  private log(ctx: ExtensionContext, type: string, fields: Fields): void {
    const file = this.facts.eventsFile;
    if (typeof file !== "string" || !inTerminal(ctx)) return;
    const line = JSON.stringify({ v: 1, at: Date.now() / 1000, type, ...fields }, bounded);
    fs.appendFileSync(file, `${line}\n`, { mode: 0o600 });
  }

  /** The agent has stopped, and only the human can start it again. */
  private settle(ctx: ExtensionContext): void {
    if (!this.facts.taskDir || this.ended || !inTerminal(ctx)) return;
    this.countEntries(ctx);
    const { stopReason = null, errorMessage = null, saidComplete = false } = this.last;
    // Esc while pi waits before a retry leaves only the error in the messages. So does an abort before a request.
    const aborted = stopReason === "aborted" || (stopReason === "error" && (this.escaped || this.aborted));
    const draft = ctx.ui.getEditorText().trim();
    const typing = ctx.hasPendingMessages() || (draft !== "" && Date.now() - this.lastKey < PATIENCE);
    if ((aborted || typing) && !this.limit) {
      this.held = aborted ? "aborted" : "typing";
      return ctx.ui.notify(`${aborted ? CONTINUES : HOLDS}. Type /quit to end the session.`, "info");
    }
    if (draft) this.keep(draft, ctx);
    const limit = (aborted && this.limit) || null; // a session that came to its own end is a good one
    this.state.update({ sessionEnded: true, limit, stopReason, errorMessage, saidComplete, usage: this.usage });
    this.ended = true;
    ctx.shutdown();
  }

  /** A line that was not sent is for the next session, unless it is a command. */
  private keep(draft: string, ctx: ExtensionContext): void {
    const command = /^[/!]/.test(draft);
    if (!command) putInInbox(this.facts.taskDir, { kind: "steer", text: draft, later: true });
    const text = command ? `Not sent: ${draft}` : `→ for the next session: ${draft}`;
    this.log(ctx, "notice", { text, level: command ? "warning" : "info" });
  }

  private settleLater(ctx: ExtensionContext): void {
    clearTimeout(this.settling);
    const patience = this.last.stopReason === "error" ? 30_000 : 1_000;
    this.settling = setTimeout(() => this.guarded(ctx, () => this.settle(ctx)), patience);
  }

  private close(ctx: ExtensionContext): void {
    clearInterval(this.ticker);
    clearTimeout(this.settling);
    this.countEntries(ctx);
    if (this.facts.taskDir && !this.ended && inTerminal(ctx)) {
      this.state.update({ usage: this.usage, worked: this.seconds });
    }
  }

  // What the human sees and types

  private draw(ctx: ExtensionContext): void {
    const line = this.line();
    if (line !== this.drawn) ctx.ui.setWidget("marathon", [line]);
    this.drawn = line;
  }

  private line(): string {
    const { taskDir, phase, iteration, startedAt, costBefore, allowance } = this.facts;
    const elapsed = duration((Date.now() - (Date.parse(startedAt) || Date.now())) / 1000);
    const budget: Budget | undefined = allowance?.cost;
    const cost = budget
      ? `${said("cost", budget.used + this.usage.cost)} of ${said("cost", budget.limit)}`
      : said("cost", (Number(costBefore) || 0) + this.usage.cost);
    const parts = [path.basename(taskDir), phase, `iteration ${iteration}`, elapsed, cost];
    return `marathon: ${parts.join(" │ ")}`.replace(CONTROL, "");
  }

  private report(): string {
    const { taskDir } = this.facts;
    const { run, waitSeconds, waitReason, feedbackQuestion } = this.state.read() ?? {};
    const sent = entriesOf(inboxOf(taskDir)).length;
    const lines = [this.line(), `run ${run ?? 1}, ${taskDir}`, `STATE.json: ${proposal(taskDir)}`];
    if (feedbackQuestion) lines.push(`waits for your answer: ${feedbackQuestion}`);
    if (waitSeconds) lines.push(`waits ${duration(waitSeconds)} before the next session: ${waitReason}`);
    if (this.held) lines.push(this.held === "typing" ? HOLDS : CONTINUES);
    if (sent > 0) lines.push(`${sent} message(s) in the inbox`);
    return lines.join("\n").replace(CONTROL, "");
  }

  private steer(args: string, ctx: ExtensionContext): void {
    if (!args.trim()) throw new Error("give a message: /marathon-steer MESSAGE");
    putInInbox(this.facts.taskDir, { kind: "steer", text: args.trim() });
    ctx.ui.notify("Sent. The next session gets it. To tell this session, just type your message.", "info");
  }

  private command(
    name: string,
    description: string,
    act: (args: string, ctx: ExtensionCommandContext) => void,
  ): void {
    const handler = async (args: string, ctx: ExtensionCommandContext) => {
      try {
        act(args, ctx);
        // This command was the text that kept the session open.
        if (this.held === "typing") this.settle(ctx);
      } catch (error) {
        ctx.ui.notify(`marathon: ${because(error)}`, "error");
      }
    };
    this.pi.registerCommand(name, { description, handler });
  }

  /** What pi is answered about a tool that this phase may not use. The runner's own tools are always there. */
  private refusal(name: string): { block: true; reason: string } | undefined {
    const tools: string[] = Array.isArray(this.facts.tools) ? this.facts.tools : [];
    const refused = tools[0]?.startsWith("!") ? tools.includes(`!${name}`) : tools.length > 0 && !tools.includes(name);
    if (!refused || name === "marathon_wait" || name === "human_feedback") return undefined;
    return { block: true, reason: `The phase ${this.facts.phase} may not use ${name} (tools: ${tools.join(", ")}).` };
  }

  private on(name: string, handler: Handler): void {
    const on = this.pi.on as (event: string, handler: Handler) => void;
    on.call(this.pi, name, (event, ctx) => this.guarded(ctx, () => handler(event, ctx)));
  }

  /** A mistake of ours must not break pi, so it is only shown, and only once. */
  private guarded(ctx: ExtensionContext, act: () => void): void {
    try {
      act();
    } catch (error) {
      if (this.complained) return;
      this.complained = true;
      try {
        ctx.ui.notify(`marathon: ${because(error)}`, "error");
      } catch {
        // pi has replaced this session, and no one would catch an error in a timer.
      }
    }
  }
}

export function inTerminal(ctx: ExtensionContext): boolean {
  // ctx.mode came with 0.78.1.
  return ctx.mode ? ctx.mode === "tui" : ctx.hasUI && process.stdout.isTTY === true && !process.argv.includes("rpc");
}
