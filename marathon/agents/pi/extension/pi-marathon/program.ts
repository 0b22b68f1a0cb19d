/** The program: its commands, the words they are typed with, and whether one works on a task. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { CONTROL, because, homeOf } from "../marathon-loop.ts";

export const PROGRAM = "pi-marathon";
const AT_ONCE = 4 * 1024 * 1024;

/**
 * What a command of the program says. A refusal is an error with its sentence. The human's words go through a pipe
 * where the command line has a "-", because everyone can read command lines, and they cannot be long.
 */
export function done(words: string[], cwd: string, said = "", signal?: AbortSignal): Promise<string> {
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

/** Start a marathon that goes on when this pi ends. What it complains about can be read until then. */
export function startInBackground(words: string[], cwd: string): { child: ChildProcess; complaints: number } {
  const file = path.join(tmpdir(), `pi-marathon-${randomBytes(8).toString("hex")}`);
  const complaints = fs.openSync(file, "wx+", 0o600);
  fs.unlinkSync(file);
  const child = spawn(PROGRAM, words, { cwd, detached: true, stdio: ["ignore", "ignore", complaints] });
  child.on("error", () => {}); // `alive` sees it
  child.unref();
  return { child, complaints };
}

/** The code of an open gate, from its living runner. Asked for after the human chose an answer. Empty if none tells. */
export function codeOf(task: string, token: string): Promise<string> {
  return new Promise((resolve) => {
    const folder = fs.openSync(homeOf(task), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    // An address holds about 100 bytes, and the path may be longer.
    const place = process.platform === "linux" ? `/proc/self/fd/${folder}` : homeOf(task);
    const runner = connect(path.join(place, "gate"), () => runner.write(`${token}\n`));
    let said = "";
    runner.setTimeout(2000, () => runner.destroy());
    runner.on("data", (data) => (said += data));
    runner.on("error", () => {}); // no runner is there
    runner.on("close", () => {
      fs.closeSync(folder);
      resolve(said.trim());
    });
  });
}

/** The process that holds the task, or held it last. Its number may be another's by now. */
export function holderOf(task: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(path.join(homeOf(task), "lock"), "utf8")).pid;
  } catch {
    return undefined;
  }
}

export function isAlive(pid: unknown): boolean {
  try {
    return typeof pid === "number" && pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Make a task for the plain loop, without starting it. The program refuses options it does not know before that. */
export async function made(name: string, goal: string, cwd: string, options: string[] = []): Promise<string> {
  return JSON.parse(await done(["repeat", "--no-start", "--json", ...options, "--", name, "-"], cwd, goal)).task;
}

// Words

export const notFound = (words: string[]) => `${PROGRAM} is not on the PATH of this pi. ${inShell(words)}`;
export const inShell = (words: string[]) => `Type in a shell: ${[PROGRAM, ...words.map(quoted)].join(" ")}`;
const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A command line as a shell would split it, with quotes but nothing else. */
export function split(typed: string): string[] {
  const words = typed.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g);
  return [...words].map(([word]) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

/** Commands of the program as one types them in this pi. What has no command here can run in pi's shell. */
export function asTyped(said: string): string {
  const shell = new RegExp(`(?<!shell: |&& |!)(?:[^\\s'"]*/)?${PROGRAM} (\\S+)`, "g");
  const answers = new RegExp(`(?:[^\\s'"]*/)?${PROGRAM} (?:approve|redo|answer|accept|cancel) (?!-)(\\S+)[^\\n]*`, "g");
  const typed = said
    .replace(answers, "/marathon-loop $1")
    .replace(shell, (all, verb: string) => HERE[verb] ?? (IN_SHELL.test(verb) ? `!${PROGRAM} ${verb}` : all));
  const lines = typed.split("\n");
  return lines.filter((line, at) => line !== lines[at - 1]).join("\n"); // all answers to a gate are one command here
}

const IN_SHELL = /^(logs|report|review|comments?|rounds|check|feedback|workflow|doctor|install|repair|rm|archive|run)$/;
const HERE: Record<string, string> = {
  "--task": "/marathon-loop",
  status: "/marathon-status",
  steer: "/marathon-steer",
  repeat: "/ralph start",
  new: "/scribe",
  ...Object.fromEntries(["stop", "kill", "list", "clean", "attach"].map((verb) => [verb, `/ralph ${verb}`])),
};
