/**
 * Measured loops inside pi: the multiloop_* tools, each of which is a command `pi-marathon loop … --json`, the command
 * /multiloop, and a status line with the loops of this project that are running.
 *
 * The program decides and writes. A refusal is an error of the tool, with the sentence that says how to go on.
 * Tools ride in every request, so those that need a loop come when the session has one.
 * After each turn of a running loop the agent is told what comes next, until the human, an error or the agent ends that.
 */
import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

type Fields = Record<string, any>;

const PROGRAM = "pi-marathon";
const FOLDER = ".multiloop";
const STATUS = "multiloop";
const PATIENCE = 60_000; // milliseconds; another command may hold the lock for ten seconds
const NOT_AGREED = /no one has agreed to them yet/;
const MOST_OUTPUT = 64 * 1024 * 1024;
const MOST_TURNS = 200; // one after the other, without a word of the human
const MOST_IDLE = 3; // turns one after the other that do nothing for a loop
const CONTROL = /\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const TYPED = new RegExp(`${PROGRAM} loop (start|try|iterate|measure|decide|log|status|resume|pause|stop|archive)\\b`, "g");

export default function (pi: ExtensionAPI): void {
  if (process.env.MARATHON_RUNNER_ID) return; // in a session of a marathon the runner decides what comes next
  let ours = false;
  const old = typeof pi.registerEntryRenderer !== "function"; // before 0.80.4: no agent_settled, no tools within a turn
  // Not before: pi does not start if two extensions register the same tool while they load. Another copy of this file or
  // pi-multiloop itself may be installed, and its tools work on the same files.
  pi.on("session_start", async (_event, ctx) => {
    ours ||= !has(pi, "start");
    if (!ours) return;
    for (const tool of TOOLS.filter(({ verb }) => ALWAYS.includes(verb))) register(pi, tool);
    if (old || usedBefore(ctx)) attach(pi);
    pi.registerCommand("multiloop", {
      description: `Measured loops: GOAL, or one of ${VERBS.join(", ")}`,
      handler: (args, ctx) => typed(pi, args.trim(), ctx).catch((error) => ctx.ui.notify(error.message, "error")),
    });
    await findRunning(ctx);
  });
  pi.on("agent_end", ({ messages }, ctx) => {
    const { stopReason } = (messages.at(-1) ?? {}) as Fields;
    turn.cutOff = { aborted: "you stopped the turn", error: "the turn failed" }[stopReason as string] ?? "";
    if (old) rest("a pi before 0.80.4 does not say when a turn is over", ctx);
  });
  pi.on("agent_settled", (_event, ctx) => goOn(pi, ctx));
  pi.on("input", ({ source }) => {
    if (source === "extension") return;
    turn.spoke = true;
    turns = 0;
  });
}

const has = (pi: ExtensionAPI, verb: string) => pi.getAllTools().some(({ name }) => name === `multiloop_${verb}`);

/** The session has a loop now: register the tools that work on one. */
function attach(pi: ExtensionAPI): void {
  for (const tool of TOOLS) if (!has(pi, tool.verb)) register(pi, tool);
}

/** Whether the conversation that goes on here worked on a loop. */
function usedBefore(ctx: ExtensionContext): boolean {
  return ctx.sessionManager.getBranch().some((entry: Fields) => entry.message?.toolName?.startsWith("multiloop_"));
}

// Turn after turn

const due = new Map<string, string>(); // by LANE/RUN: what comes next in each running loop that the agent works on
const turn = { worked: false, spoke: false, cutOff: "" }; // on a loop, the human, and why it ended early
let turns = 0;
let idle = 0; // turns without work on a loop, one after the other

/** Tell the agent what comes next, or the human why nothing does. */
async function goOn(pi: ExtensionAPI, ctx: ExtensionContext): Promise<void> {
  if (due.size === 0 || !ctx.hasUI || ctx.hasPendingMessages()) return;
  const { worked, spoke, cutOff } = turn;
  Object.assign(turn, { worked: false, spoke: false, cutOff: "" });
  idle = worked ? 0 : idle + 1;
  const why =
    cutOff ||
    (spoke && !worked && "you said something else") ||
    (idle >= MOST_IDLE && `${MOST_IDLE} turns did nothing for it`) ||
    (++turns > MOST_TURNS && `${MOST_TURNS} turns went by without you`);
  if (!worked) await look(ctx).catch(() => {}); // it may have been ended in a shell
  if (why) rest(why, ctx);
  const next = [...due].map(([target, command]) => `${target} is running. Next: ${asTools(command)}`);
  if (next.length === 0 || ctx.hasPendingMessages()) return;
  pi.sendUserMessage(`${next.join("\n")}\nGo on until the loop ends. If you cannot, call multiloop_pause and say why.`);
}

function rest(why: string, ctx: ExtensionContext): void {
  const loops = [...due.keys()].join(", ");
  due.clear();
  if (loops) ctx.ui.notify(`${loops} does not go on: ${why}. To go on: /multiloop resume`, "info");
}

// /multiloop

const VERBS = ["ls", "status", "resume", "pause", "stop", "archive", "rm"];
const BEGIN =
  "Find the command that prints the number, and the one that has to pass before anything is kept. Start the loop with " +
  "multiloop_start. Then change one thing, and multiloop_try measures it and keeps it or takes it back, again and again.";

async function typed(pi: ExtensionAPI, args: string, ctx: ExtensionContext): Promise<void> {
  turns = idle = 0;
  const [verb = "status", ...words] = args.split(/\s+/).filter(Boolean);
  if (!VERBS.includes(verb)) {
    return pi.sendUserMessage(`Work towards this goal with a measured loop: ${args}\n\n${BEGIN}`, { deliverAs: "followUp" });
  }
  if (verb === "rm" && !(await ctx.ui.confirm("Remove this loop?", words.join(" ")))) return;
  const answer = await told([verb, "--json", ...words], ctx.cwd);
  learn(verb, answer, ctx);
  const said = verb === "ls" ? listed(answer).map(({ target, status }) => `${target}  ${status}`).join("\n") : "";
  ctx.ui.notify(said || textOf(answer), "info");
  if (verb !== "resume") return;
  turn.worked = true;
  attach(pi);
  if (ctx.isIdle()) await goOn(pi, ctx);
}

// The tools

const lane = Type.String({ description: "The lane, such as perf, or exactly one run of it: perf/run-20260202-143000" });
const measurements = Type.Array(Type.Number(), { description: "The numbers that verify printed, at least one" });
const hypothesis = Type.Optional(Type.String({ description: "What you expect, and why" }));
const changes = Type.Optional(Type.String({ description: "What you change" }));
const target = Type.String({ description: "LANE/RUN, or LANE if it has one such run" });
const text = (description: string) => Type.Optional(Type.String({ description }));
const oneOf = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)));

const check = Type.Object({
  name: Type.String(),
  passed: Type.Boolean(),
  kind: text("mechanical, prompt or guard"),
  command: text("The guard command that was run, exactly as configured"),
  prompt: text("The prompt verifier that was judged, exactly as configured"),
  evidence: text("What was seen"),
});

const ALWAYS = ["start", "status"];

type Tool = { verb: string; about: string; parameters: Fields; words: (given: Fields) => string[] };

const TOOLS: Tool[] = [
  {
    verb: "start",
    about: "Start a measured loop: change one thing, then multiloop_try measures it and keeps what improves a number.",
    parameters: {
      lane: Type.String({ description: "Its name: letters, digits, dot, underscore, dash" }),
      mode: oneOf("optimize", "punchlist", "research", "dev"),
      goal: Type.String({ description: "What should get better" }),
      verifyCommand: text("The command that prints the number"),
      runTag: text("The name of this run; without it, the time"),
      guardCommand: text("A command that has to pass before anything is kept"),
      promptVerifier: text("A question that has to be judged before anything is kept"),
      acceptancePolicy: text("In words, when a change is accepted"),
      metricName: text("The name of the number"),
      metricDirection: Type.Optional(oneOf("lower", "higher")),
      acceptanceMode: Type.Optional(oneOf("keep-revert", "log")),
      scope: text("What may be changed"),
    },
    words: (given) => [
      ...options(given, {
        lane: "lane",
        kind: "mode",
        run: "runTag",
        verify: "verifyCommand",
        guard: "guardCommand",
        "prompt-verifier": "promptVerifier",
        "acceptance-policy": "acceptancePolicy",
        metric: "metricName",
        direction: "metricDirection",
        acceptance: "acceptanceMode",
        scope: "scope",
      }),
      ...(given.verifyCommand ? ["--in-place"] : []),
      "--",
      given.goal,
    ],
  },
  {
    verb: "try",
    about:
      "Measure what you changed in the tree, by the loop's own commands. It is kept as a commit, or taken back. The first " +
      "call measures the tree before any change, too. It may take long.",
    parameters: { lane, hypothesis },
    words: (given) => [...options(given, { hypothesis: "hypothesis" }), "--", given.lane],
  },
  {
    verb: "iterate",
    about: "When you measure yourself: start the next iteration of a loop. It tells what to beat, what was tried, and what to run.",
    parameters: { lane, runTag: text("The run, if the lane has several"), hypothesis, changes },
    words: (given) => [
      ...options(given, { hypothesis: "hypothesis", changes: "changes" }),
      "--",
      given.runTag ? `${given.lane}/${given.runTag}` : given.lane,
    ],
  },
  {
    verb: "measure",
    about:
      "Record what verify printed, with a check for the guard and the prompt verifier. The first measurement of a loop " +
      "is its baseline. The answer names the decision that is due.",
    parameters: { lane, measurements, checks: Type.Optional(Type.Array(check)) },
    words: (given) => [...values(given), ...(given.checks ?? []).map(asOption), "--", given.lane],
  },
  {
    verb: "decide",
    about: "Finish the measured iteration with the action that is due and the same numbers.",
    parameters: { lane, action: oneOf("keep", "revert", "log", "skip"), measurements, hypothesis, changes },
    words: (given) => [
      ...values(given),
      ...options(given, { hypothesis: "hypothesis", changes: "changes" }),
      "--",
      given.lane,
      given.action,
    ],
  },
  {
    verb: "log",
    about: "Finish an iteration without a decision: logged, skipped, crashed or blocked.",
    parameters: {
      lane,
      action: Type.Optional(oneOf("log", "skip", "crash", "blocked")),
      metric: Type.Optional(Type.Number({ description: "The number, if there is one" })),
      note: text("Why"),
    },
    words: (given) => [...options(given, { value: "metric", note: "note" }), "--", given.lane, given.action ?? "log"],
  },
  {
    verb: "status",
    about: "Where the loops of this project stand, or one of them with its numbers and lessons.",
    parameters: { target: Type.Optional(target) },
    words: aimed,
  },
  {
    verb: "resume",
    about: "Let a loop that was paused, stopped or completed run again.",
    parameters: { target: Type.Optional(target) },
    words: aimed,
  },
  { verb: "pause", about: "Pause a loop.", parameters: { target }, words: aimed },
  { verb: "stop", about: "Stop a loop.", parameters: { target }, words: aimed },
  { verb: "archive", about: "Move a loop to the archive. It cannot be resumed.", parameters: { target }, words: aimed },
];

function aimed(given: Fields): string[] {
  return ["--", ...(given.target ? [given.target] : [])];
}

const values = (given: Fields): string[] => given.measurements.map((value: number) => `--value=${value}`);

const asOption = (given: Fields) => `--check=${JSON.stringify(given)}`;

/** The options that were given. Written with `=`, so that a value may begin with a dash. */
function options(given: Fields, names: Record<string, string>): string[] {
  const known = Object.entries(names).filter(([, field]) => given[field] !== undefined && given[field] !== "");
  return known.map(([option, field]) => `--${option}=${given[field]}`);
}

function register(pi: ExtensionAPI, { verb, about, parameters, words }: Tool): void {
  pi.registerTool({
    name: `multiloop_${verb}`,
    label: `Multiloop ${verb}`,
    description: about,
    parameters: Type.Object(parameters),
    async execute(_id, given, signal, _onUpdate, ctx) {
      const works = !LOOKING.includes(verb);
      if (works) turn.spoke = false; // it went on with the loop after that
      const details = await agreed([verb, "--json", ...words(given as Fields)], ctx, signal);
      turn.worked ||= works; // a call that is refused leads nowhere
      learn(verb, details, ctx);
      if (listed(details).length > 0) attach(pi);
      return { content: [{ type: "text" as const, text: asTools(textOf(details)) }], details };
    },
  });
}

// The program

/** What a command answers. The human is asked where no one has agreed to the loop's commands yet. */
async function agreed(words: string[], ctx: ExtensionContext, signal?: AbortSignal): Promise<any> {
  try {
    return await told(words, ctx.cwd, signal);
  } catch (error) {
    const { message } = error as Error;
    if (!NOT_AGREED.test(message) || !ctx.hasUI || !(await ctx.ui.confirm("Run these commands?", message))) throw error;
    return told([...words.slice(0, 2), "--trust", ...words.slice(2)], ctx.cwd, signal);
  }
}

/** The object that a command of the program answers. A refusal is an error with the way on. */
function told(words: string[], cwd: string, signal?: AbortSignal): Promise<any> {
  return new Promise((resolve, reject) => {
    const how = { cwd, timeout: words[0] === "try" ? 0 : PATIENCE, maxBuffer: MOST_OUTPUT, signal };
    execFile(PROGRAM, ["loop", ...words], how, (error, stdout, stderr) => {
      if ((error as NodeJS.ErrnoException | null)?.code === "ENOENT") {
        return reject(new Error(`${PROGRAM} is not on the PATH of this pi. Ask the human to install it.`));
      }
      const answer = parsed(stdout);
      if (!error && answer !== undefined) return resolve(answer);
      const said = answer?.refused ? `${answer.refused} ${answer.recovery}` : stderr.replaceAll(`${PROGRAM}: `, "");
      reject(new Error(asTools(said.trim() || String(error ?? "it answered nothing"))));
    });
  });
}

function parsed(stdout: string): any {
  try {
    return JSON.parse(stdout);
  } catch {
    return undefined;
  }
}

/** What a person would read. `status` without a target answers a list. */
function textOf(answer: any): string {
  const texts = listed(answer).map((one) => one.text ?? JSON.stringify(one));
  return texts.join("\n\n") || "There are no loops here yet.";
}

const listed = (answer: any): Fields[] => (Array.isArray(answer) ? answer : [answer]);

/** Commands that are to be typed, as calls of these tools. */
const asTools = (said: string) => said.replace(CONTROL, "").replace(TYPED, "multiloop_$1");

// The status line

const running = new Map<string, string>(); // by LANE/RUN, such as perf#3

/** What the answer to a verb says of the loops. */
function learn(verb: string, answer: any, ctx: ExtensionContext): void {
  for (const one of listed(answer)) {
    note(one);
    if (!running.has(one.target)) due.delete(one.target);
    else if (verb === "try" || (!LOOKING.includes(verb) && isForAgents(one))) due.set(one.target, one.next);
  }
  show(ctx);
}

const LOOKING = ["status", "ls"];
const isForAgents = ({ state }: Fields) => state?.status === "running" && state.measuredBy !== "runner";

function note({ target, state }: Fields): void {
  if (state?.status !== "running") running.delete(target);
  else running.set(target, `${state.lane}#${state.activeIteration?.iteration ?? state.iteration}`);
}

/** Such as `multiloop: perf#3, quant#1`: the running loops and the iteration of each. */
function show(ctx: ExtensionContext): void {
  if (!ctx.hasUI) return;
  const names = [...running.values()].join(", ").replace(CONTROL, "");
  ctx.ui.setStatus(STATUS, names ? `multiloop: ${names}` : undefined);
}

async function look(ctx: ExtensionContext): Promise<Fields[]> {
  const loops = listed(await told(["ls", "--json"], ctx.cwd));
  running.clear();
  learn("ls", loops, ctx);
  for (const target of due.keys()) if (!running.has(target)) due.delete(target);
  return loops;
}

async function findRunning(ctx: ExtensionContext): Promise<void> {
  if (!ctx.hasUI || !hasLoops(ctx.cwd)) return;
  try {
    const loops = await look(ctx);
    const names = loops.filter(isForAgents).map(({ target }) => target);
    if (names.length) ctx.ui.notify(`Measured loops to go on with: ${names.join(", ")} (/multiloop resume)`, "info");
  } catch {
    // Loops that cannot be read, or a session that was replaced: the next tool call says so.
  }
}

/** Whether the project has loops, without starting the program. */
function hasLoops(folder: string): boolean {
  if (fs.existsSync(path.join(folder, FOLDER))) return true;
  const above = path.dirname(folder);
  return above !== folder && !fs.existsSync(path.join(folder, ".git")) && hasLoops(above);
}
