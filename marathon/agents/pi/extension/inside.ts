/**
 * A marathon inside the pi that started it. The program runs in the background, and this side shows its event log
 * (`.marathon/runs/NNN/events/NNN.jsonl`) in the session of the human.
 *
 * The runner decides and writes. What the human says goes to it through a command of the program. A gate is answered
 * only by keys, in a dialog of this terminal: no tool and no message of a model leads there.
 */
import * as fs from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";
import { CONTROL, because, entriesOf, inSession, inTerminal, loadedTwice } from "./marathon-loop.ts";
import type { Fields } from "./marathon-loop.ts";
import { drawn, loadParts, parts } from "./pi-marathon/drawing.ts";
import type { Show, Shown } from "./pi-marathon/drawing.ts";
import { Followed, cut, nameOf, oneLine } from "./pi-marathon/followed.ts";
import type { Bookmark } from "./pi-marathon/followed.ts";
import { bytesOf, parsed } from "./pi-marathon/log.ts";
import { PROGRAM, asTyped, codeOf, done, inShell, made, split, startInBackground } from "./pi-marathon/program.ts";

type Offer = { label: string; choice: string; phase: string | null; words: string; ask: string };
type Answer = { words: string[]; text: string };

const HELLO = "pi-marathon:inside";
const ENTRY = "pi-marathon";
const STOP_WITH_PI = "--stop-with-pi";
const WIDGET = "marathon-loop";
const STATUS = "ralph";
const TICK = 250; // milliseconds
const ALT_ENTER = /^\x1b(\r|\n|\[13;3(:1)?u|\[27;3;13~)$/;
const NOTHING = "Undo nothing";
const LATER = "Decide later: /marathon-loop asks again";
const WELCOME = "marathon: /scribe writes a task with you, /marathon-loop PATH runs it";
const WHILE_STARTING = 3000; // milliseconds; a gate before the first session is in no log
// The options of `pi-marathon repeat` that take the next word. A value of --worktree and --sandbox stands after a "=".
const TAKES_VALUE = new RegExp(
  "^--(agent|mode|set|setup|hours|sandbox-write|oversight|shape|max-iterations|max-time|max-cost|max-tokens|reflect-every|breaker" +
    "|session-timeout|retries|retry-wait|outage|keep-events|summary|success)$",
);
const MOST_ANNOUNCED = 3;
const USUAL_COST = 10; // dollars
const RALPH = "start NAME GOAL, attach [NAME], detach, stop, status, list, kill, clean";

/** Survives /new, /resume and /reload, which load this file anew. */
type Kept = { task: string; words: string[]; asked?: string; bookmark?: Bookmark };
const kept = globalThis as unknown as { piMarathon?: Kept; piMarathonsToStop?: Set<string> };

export default async function (pi: ExtensionAPI): Promise<void> {
  if (loadedTwice(pi, HELLO)) return;
  await loadParts(); // /reload draws the transcript again before the session starts
  new Inside(pi).register();
}

/** The beginning of a text, as a dialog can show it. */
function shortened(text: string, whole = "", most = 15): string {
  const lines = text.split("\n");
  const more = lines.length > most ? [`… and ${lines.length - most} more lines${whole}`] : [];
  return [...lines.slice(0, most), ...more].join("\n");
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
    this.command("ralph", `A checklist: ${RALPH}`, this.ralph);
    const ralph = (verb: string) => (args: string, ctx: ExtensionCommandContext) => this.ralph(`${verb} ${args}`, ctx);
    this.command("marathon-status", "Where a marathon stands: [TASK]", ralph("status"));
    this.command("marathon-pause", "Stop a marathon after its session: [TASK]", ralph("stop"));
    this.command("marathon-steer", "Tell the agent of a marathon: [TASK] MESSAGE", this.steerTyped);
    this.pi.registerEntryRenderer?.<Shown>(ENTRY, ({ data }, how, theme) => data && drawn(data, how.expanded, theme));
    this.pi.on("session_start", (_event, ctx) => this.begin(ctx));
    this.pi.on("session_shutdown", (event, ctx) => this.close(event.reason, ctx));
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
    if (process.env.MARATHON_BARE) ctx.ui.setStatus("marathon", WELCOME);
    if (!kept.piMarathon) return void this.announce(ctx).catch(() => {}); // pi does not wait for it
    const { task, words, bookmark } = kept.piMarathon;
    const followed = new Followed(task, words, ctx.cwd);
    if (bookmark) followed.bookmark = bookmark;
    this.follow(followed, ctx);
  }

  /** Say what runs or waits in this project. */
  private async announce(ctx: ExtensionContext): Promise<void> {
    const rows: Fields[] = await done(["list", "--json"], ctx.cwd).then(parsed, () => []);
    const lines = rows.filter(isActive).map(({ task, condition }) => {
      const name = nameOf(task);
      const waits = `${name} waits for you: /marathon-loop ${name}`;
      return condition === "gate" ? waits : `${name} runs: /ralph attach ${name}`;
    });
    const more = lines.length > MOST_ANNOUNCED ? [`and ${lines.length - MOST_ANNOUNCED} more: /ralph list`] : [];
    const text = ["Marathons of this project:", ...lines.slice(0, MOST_ANNOUNCED), ...more].join("\n");
    if (lines.length > 0 && !this.followed) ctx.ui.notify(text, "info");
  }

  private close(reason: string, ctx: ExtensionContext): void {
    // A block that has begun goes on in the same transcript only.
    if (kept.piMarathon) kept.piMarathon.bookmark = reason === "reload" ? this.followed?.bookmark : undefined;
    if (this.followed) this.leave(ctx, reason !== "quit");
    if (reason !== "quit") return;
    for (const task of kept.piMarathonsToStop ?? []) startInBackground(["stop", "--now", "--", task], this.cwd);
  }

  // Commands

  private loop = async (args: string, ctx: ExtensionCommandContext): Promise<void> => {
    const words = split(args);
    if (inSession()) throw new Error("a marathon is already running here");
    if (this.followed && words.length === 0) return this.again(this.followed, ctx);
    const named = words[0]?.startsWith("-") ? undefined : words.shift();
    const folder = named === undefined ? await this.chosen(ctx) : await taskMeant(named, ctx.cwd);
    if (folder === undefined) return;
    if (this.followed?.task === folder && words.length === 0) return this.again(this.followed, ctx);
    if (await this.mayStart(nameOf(folder), ctx, folder)) await this.run(folder, words, ctx);
  };

  /** /marathon-loop while a marathon is shown here: its gate again, or another start. */
  private async again(followed: Followed, ctx: ExtensionContext): Promise<void> {
    await followed.refresh();
    if (followed.gateOpen()) return this.gate(followed, ctx, true);
    if (!followed.alive()) followed.start();
    ctx.ui.notify(followed.lines().join("\n"), "info");
  }

  private async run(task: string, words: string[], ctx: ExtensionContext): Promise<void> {
    const followed = await this.prepared(task, words, ctx);
    const runs = followed.alive();
    if (!runs) followed.start();
    const stopsWithPi = atDashes(words)[0].includes(STOP_WITH_PI);
    kept.piMarathonsToStop ??= new Set();
    kept.piMarathonsToStop[stopsWithPi ? "add" : "delete"](task);
    this.takeUp(followed, ctx);
    const closing = stopsWithPi ? "It stops when you close pi." : "It goes on when you close pi.";
    const late = runs && words.some((word) => word !== STOP_WITH_PI) ? " It runs already, so the options do not count." : "";
    ctx.ui.notify(`What you type now is told to ${nameOf(task)}.${late} ${closing} /ralph stop ends it earlier.`, "info");
  }

  /** /ralph attach: show a marathon that runs or waits, and start nothing. */
  private async attach(typed: string | undefined, ctx: ExtensionContext): Promise<void> {
    if (!inTerminal(ctx)) throw new Error("this pi has no terminal to show it in");
    const task = typed === undefined ? await this.chosen(ctx, true) : await taskMeant(typed, ctx.cwd);
    if (task === undefined) return;
    if (task === this.followed?.task) return this.again(this.followed, ctx);
    const followed = await this.prepared(task, [], ctx);
    const name = nameOf(task);
    const active = followed.alive() || followed.gateOpen();
    if (!active) throw new Error(`${name} does not run. Start it: /marathon-loop ${name}`);
    this.takeUp(followed, ctx);
    ctx.ui.notify(`What you type now is told to ${name}. /ralph detach shows it no longer.`, "info");
  }

  /** /ralph detach: it goes on without being shown. */
  private detach(typed: string | undefined, ctx: ExtensionContext): void {
    const name = this.followed && nameOf(this.followed.task);
    const isIt = name && (!typed || name.includes(nameOf(typed)));
    if (!isIt) throw new Error(`${typed ?? "no marathon"} is not shown here`);
    const doing = this.followed?.gateOpen() ? "waits for you" : "goes on in the background";
    this.leave(ctx);
    ctx.ui.notify(`${name} ${doing}. /ralph attach ${name} shows it again.`, "info");
  }

  private async prepared(task: string, words: string[], ctx: ExtensionContext): Promise<Followed> {
    const [[before, forAgent], [typed, typedForAgent]] = [atDashes(this.given), atDashes(words)];
    const options = [...before, ...typed.filter((word) => word !== STOP_WITH_PI)];
    const args = [...forAgent, ...typedForAgent];
    const all = ["--task", asSeenFrom(ctx.cwd, task), ...options, ...(args.length ? ["--", ...args] : [])];
    const followed = new Followed(task, all, ctx.cwd);
    await followed.refresh().catch(() => {}); // what is wrong with the task is said by the start
    if (followed.alive()) followed.rewind();
    return followed;
  }

  private takeUp(followed: Followed, ctx: ExtensionContext): void {
    if (this.followed) this.leave(ctx);
    kept.piMarathon = { task: followed.task, words: followed.words };
    this.follow(followed, ctx);
  }

  /** Whether a marathon may be started and shown here. One that runs here already may go on without being shown. */
  private async mayStart(name: string, ctx: ExtensionContext, task?: string): Promise<boolean> {
    const words = task === undefined ? ["repeat", name] : ["--task", asSeenFrom(ctx.cwd, task)];
    if (!inTerminal(ctx)) throw new Error(`this pi has no terminal to show it in. ${inShell(words)}`);
    const running = this.followed;
    if (!running || running.task === task || !running.alive()) return true;
    const title = `${nameOf(running.task)} is running here. Start ${name} beside it? Both may change the same files.`;
    const yes = `Yes: show ${name} here. ${nameOf(running.task)} goes on in the background`;
    return (await ctx.ui.select(title.replace(CONTROL, ""), ["No", yes.replace(CONTROL, "")])) === yes;
  }

  private async chosen(ctx: ExtensionContext, active = false): Promise<string | undefined> {
    const all: Fields[] = parsed(await done(["list", "--json"], ctx.cwd));
    if (all.length === 0) throw new Error("there is no task yet. Make one with /scribe, or: /ralph start NAME GOAL");
    const rows = active ? all.filter(isActive) : all;
    if (rows.length === 0) throw new Error("no marathon runs or waits here. Start one: /marathon-loop");
    const labels = rows.map(({ task, condition }) => `${nameOf(task)} (${condition})`);
    const label = await ctx.ui.select("Which task?", labels);
    const row = rows[labels.indexOf(label ?? "")];
    return row && path.resolve(row.project, row.task);
  }

  private ralph = async (args: string, ctx: ExtensionCommandContext): Promise<void> => {
    const [verb = "", ...words] = split(args);
    if (verb === "start") return this.startLoop(words, ctx);
    if (verb === "attach") return this.attach(words[0], ctx);
    if (verb === "detach") return this.detach(words[0], ctx);
    const task = words[0] ?? this.followed?.task;
    const one = task === undefined ? [] : ["--", task];
    const commands: Record<string, string[]> = {
      stop: ["stop", ...one],
      kill: ["stop", "--now", ...one],
      status: task === undefined ? ["list"] : ["status", ...one],
      list: ["list", "--all"],
      clean: ["rm", "--logs", "--yes"],
    };
    if (!commands[verb]) throw new Error(`type one of these after /ralph: ${RALPH}`);
    // At a gate the runner may be gone already. Then to stop is to show it no longer.
    const gone = this.followed && this.followed.task === task && !this.followed.alive();
    if (gone && commands[verb][0] === "stop") return this.leave(ctx);
    if (verb === "clean") {
      const goes = await done(["rm", "--logs", "--list"], ctx.cwd);
      if (goes.startsWith("Nothing")) return ctx.ui.notify(goes, "info");
      if (!(await ctx.ui.confirm("Clean up?", shortened(goes, `: !${PROGRAM} rm --logs --list`)))) return;
    }
    ctx.ui.notify(asTyped(await done(commands[verb], ctx.cwd)), "info");
  };

  /** /ralph start NAME GOAL, with options in between, and arguments for the agent after --. */
  private async startLoop(words: string[], ctx: ExtensionContext): Promise<void> {
    const { plain, options, args } = parted(words);
    const [name, ...said] = plain;
    if (!name) throw new Error("give a name: /ralph start NAME GOAL");
    if (!(await this.mayStart(name, ctx))) return; // before a task is made
    const goal = said.join(" ") || (await ctx.ui.editor("What should be different when it is done?"));
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
      act(args, ctx).catch((error) => ctx.ui.notify(`marathon: ${asTyped(because(error))}`, "error"));
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
    ctx.ui.setStatus(STATUS, undefined);
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
    if (shown.kind === "line" || shown.kind === "warning") shown = { ...shown, text: asTyped(shown.text) };
    if (parts.Text && typeof this.pi.registerEntryRenderer === "function") this.pi.appendEntry(ENTRY, shown);
    else if (shown.kind === "line" || shown.kind === "warning") this.ui?.notify(shown.text, "info");
  };

  private draw(followed: Followed, ctx: ExtensionContext): void {
    const [head, doing] = followed.lines();
    if (head + doing === this.drawn && !followed.grew) return;
    ctx.ui.setWidget(WIDGET, [head, ctx.ui.theme.fg("dim", doing)]); // and pi draws a frame
    ctx.ui.setStatus(STATUS, followed.short());
    this.drawn = head + doing;
    followed.grew = false;
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
    ctx.ui.notify(asTyped(`${said}${resume ? `\nTo continue: ${resume}` : ""}`), refused ? "error" : "info");
  }

  // What the human says

  /** One message after the other, so that they arrive in the order they were typed in. */
  private steer(followed: Followed, text: string, later: boolean, ctx: ExtensionContext): void {
    const words = ["tell", ...(later ? ["--next"] : []), "--", followed.task, "-"];
    this.sending = this.sending
      .then(() => done(words, followed.cwd, text))
      .then(() => this.show({ kind: "line", text: `→ ${later ? "for the next session" : "sent"}: ${text}` }))
      .catch((error) => {
        if (!ctx.ui.getEditorText()) ctx.ui.setEditorText(text); // nothing that was typed is lost
        ctx.ui.notify(`marathon: not sent: ${asTyped(because(error))}`, "error");
      });
  }

  /** /marathon-steer [TASK] MESSAGE. A message may begin with a word that is a part of a task's name. */
  private steerTyped = async (args: string, ctx: ExtensionCommandContext): Promise<void> => {
    const [, word, rest] = /^(\S*)\s*(.*)$/s.exec(args.trim()) as string[];
    const meant = rest && word.length > 2 ? await taskMeant(word, ctx.cwd).catch(() => undefined) : undefined;
    const shown = this.followed?.task;
    let [task, text] = meant ? [meant, rest] : [shown, args.trim()];
    const whole = meant && (word.includes("/") || [path.basename(meant), nameOf(meant)].includes(word));
    if (meant && !whole && meant === shown) text = args.trim();
    else if (meant && !whole) {
      const to = `${nameOf(meant)} gets: ${oneLine(rest, 80)}`;
      const all = `${shown ? nameOf(shown) : "The one that runs"} gets: ${oneLine(args, 80)}`;
      const chosen = await ctx.ui.select(`Is ${word} the task ${nameOf(meant)}?`, [to, all]);
      if (chosen === undefined) return ctx.ui.setEditorText(`/marathon-steer ${args}`);
      if (chosen === all) [task, text] = [shown, args.trim()];
    }
    ctx.ui.notify(asTyped(await done(["tell", "--", ...(task ? [task] : []), "-"], ctx.cwd, text)), "info");
  };

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
    let answer: Answer | undefined;
    try {
      const text = [`⏸ ${waitsFor}`, gate.message, ...(gate.writes ?? []), note].filter(Boolean).join("\n");
      if (!again) this.show({ kind: "warning", text });
      answer = await this.answer(gate, followed, ctx, signal);
      if (!answer) return;
      ctx.ui.notify(asTyped(await done(answer.words, followed.cwd, answer.text)), "info");
      followed.status.gate = undefined;
      if (!followed.alive() && answer.words[0] !== "cancel") followed.start();
    } catch (error) {
      if (answer?.text && !ctx.ui.getEditorText()) ctx.ui.setEditorText(answer.text); // nothing typed is lost
      if (answer || !signal.aborted) ctx.ui.notify(`marathon: ${asTyped(because(error))}`, "error");
    } finally {
      followed.asking = undefined;
      this.over = followed.gateOpen() && !followed.alive();
      if (signal.aborted) void this.refresh(followed, ctx); // another gate may be open by now
    }
  }

  /** The command of the answer. The first choice changes nothing, for an Enter that was meant for the editor. */
  private async answer(
    gate: Fields,
    followed: Followed,
    ctx: ExtensionContext,
    signal: AbortSignal,
  ): Promise<Answer | undefined> {
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
    const text = offer.words === "none" ? "" : await ctx.ui.editor(offer.ask); // `input` would drop the newlines
    if (text === undefined || (offer.words === "required" && !text.trim())) return undefined;
    const heavy = ["cancel", "accept", "loop"].includes(offer.choice);
    if (heavy && (await ctx.ui.select(`Are you sure? ${offer.label}`, ["No", "Yes"], { signal })) !== "Yes") {
      if (text) ctx.ui.setEditorText(text);
      return undefined;
    }
    const code = offer.choice === "cancel" ? "" : await this.code(gate, followed, ctx, signal);
    if (code === undefined) {
      if (text) ctx.ui.setEditorText(text);
      return undefined;
    }
    return { words: commandOf(offer, followed.task, gate.token, code, text), text };
  }

  /** The code of a gate. The human types it where no runner tells. */
  private async code(
    gate: Fields,
    followed: Followed,
    ctx: ExtensionContext,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const ask = "The gate's code, as it was printed where the marathon was started:";
    return (await codeOf(followed.task, gate.token)) || ctx.ui.input(ask, "", { signal });
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
    const code = await this.code(gate, followed, ctx, signal);
    if (code === undefined) return;
    const how = ["--code", code, ...(back ? ["--branch"] : [])];
    ctx.ui.notify(await done([...words(...how), ...ticked], followed.cwd), "info");
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
        maxCost: Type.Optional(Type.Number({ minimum: 0.01, description: "Dollars at most. The human may change it" })),
        reflectEvery: Type.Optional(Type.Integer({ minimum: 0, description: "Look back after so many sessions" })),
      }),
      execute: async (_id, { name, task, maxIterations = 100, maxCost, reflectEvery = 0 }, signal, _onUpdate, ctx) => {
        if (!ctx.hasUI) throw new Error("there is no human to ask, so no marathon was started");
        const cost = maxCost ?? (Number(/--max-cost[ =]\$?([\d.]+)/.exec(this.given.join(" "))?.[1]) || USUAL_COST);
        const asked = `Start the loop ${name}? Up to ${maxIterations} sessions in the background:\n${task}`;
        const limit = await costLimit(asked.replace(CONTROL, ""), cost, ctx, signal);
        if (!limit || !(await this.mayStart(name, ctx))) throw new Error("the human said no");
        const folder = await made(name, task, ctx.cwd);
        const options = [`--max-iterations=${maxIterations}`, `--reflect-every=${reflectEvery}`, `--max-cost=${limit}`];
        await this.run(folder, options, ctx);
        const started = `Started ${folder} for at most ${dollars(limit)}.`;
        return reply(`${started} It runs by itself and the human sees it. Do not wait for it.`);
      },
    });
    this.pi.registerTool({
      name: "marathon_status",
      label: "Marathon status",
      description: "Where the marathons of this project stand, or one of them, as JSON.",
      parameters: Type.Object({ task: Type.Optional(Type.String({ description: "Its path or a part of its name" })) }),
      execute: async (_id, { task }, signal, _onUpdate, ctx) => {
        const said = await done(task ? ["status", "--json", "--", task] : ["list", "--json"], ctx.cwd, "", signal);
        return reply(said, JSON.parse(said));
      },
    });
  }
}

/** The most that a loop may cost, if the human starts it. No is preselected, for an Enter meant for the editor. */
async function costLimit(
  asked: string,
  usual: number,
  ctx: ExtensionContext,
  signal?: AbortSignal,
): Promise<number | undefined> {
  const [yes, other] = [`Yes, for at most ${dollars(usual)}`, "Yes, with another cost limit"];
  const chosen = await ctx.ui.select(shortened(asked), ["No", yes, other], { signal });
  if (chosen === yes) return usual;
  if (chosen !== other) return undefined;
  for (let title = "Cost at most, in dollars:"; ; title = "An amount such as 2.50, in dollars:") {
    const typed = await ctx.ui.input(title, "", { signal });
    if (typed === undefined) return undefined;
    const amount = Number(typed.trim().replace(/^\$/, ""));
    if (amount > 0 && amount < Infinity) return amount;
  }
}

const isActive = ({ runner, condition }: Fields) => Boolean(runner) || condition === "gate";
const dollars = (amount: number) => `$${amount.toFixed(2)}`;
const reply = (text: string, details?: unknown) => ({ content: [{ type: "text" as const, text }], details });
/** The answer as a command. It carries the gate's token and its code, so it answers exactly this gate. */
function commandOf({ choice, phase }: Offer, task: string, token: string, code: string, text: string): string[] {
  const gate = ["--gate", token, ...(choice === "cancel" ? [] : ["--code", code])];
  const why = text.trim() ? ["--message=-"] : [];
  const commands: Record<string, string[]> = {
    continue: ["approve", ...why],
    redo: ["redo", ...why, ...(phase ? ["--phase", phase] : [])],
    loop: ["redo", "--loop", ...why],
    accept: ["approve", "--yes", "--anyway=-"],
    cancel: ["cancel", "--yes"],
    answer: ["answer"],
  };
  return [...commands[choice], ...gate, "--", task, ...(choice === "answer" ? [text.trim() && "-"] : [])];
}

// Paths

const asSeenFrom = (cwd: string, task: string) =>
  task.startsWith(`${cwd}${path.sep}`) ? path.relative(cwd, task) : task;
const isTask = (folder: string) => fs.existsSync(path.join(folder, "instructions.md"));
const typedFolder = (typed: string, cwd: string) => path.resolve(cwd, typed.replace(/^~(?=$|\/)/, homedir()));

/** The folder of the task that a path or a part of a name means. */
async function taskMeant(typed: string, cwd: string): Promise<string> {
  const folder = typedFolder(typed, cwd);
  if (isTask(folder)) return folder;
  const none = (where: string) => `${where} has no instructions.md. Make a task with /scribe or /ralph start`;
  if (typed.includes("/")) throw new Error(none(folder));
  const { project, task } = parsed(await done(["status", "--json", "--sessions=0", "--", typed], cwd));
  const found = path.resolve(project, task);
  if (!isTask(found)) throw new Error(none(found));
  return found;
}

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
