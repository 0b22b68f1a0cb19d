/** Reads the event log of a task while the runner writes it. */
import * as fs from "node:fs";
import * as path from "node:path";
import { CONTROL, entriesOf, homeOf } from "../marathon-loop.ts";
import type { Fields } from "../marathon-loop.ts";

export type Position = { at: { number: number; file: string }; part?: number; offset: number };

const AT_ONCE = 4 * 1024 * 1024;

/** Reads the events of a task, session after session, from the end of the log on, or from a little before. */
export class Log {
  private at = { number: 0, file: "" };
  private part = 0; // of a long log, which goes on in a new file
  private offset = 0;

  constructor(private readonly task: string, before: number) {
    this.at = this.later().at(-1) ?? this.at;
    while (this.file() !== this.at.file) this.part++;
    this.offset = this.at.file ? Math.max(0, fs.statSync(this.at.file).size - before) : 0;
  }

  /** Where it is, for another Log to go on from. */
  get position(): Position {
    return { at: this.at, part: this.part, offset: this.offset };
  }

  set position({ at, part = 0, offset }: Position) {
    this.at = at;
    this.part = part;
    this.offset = offset;
  }

  /** The events that came since the last call. */
  *read(): Generator<Fields> {
    for (;;) {
      const next = this.later()[0]; // before the rest is read, so that nothing is written behind our back
      const [part, before] = [this.part, this.offset];
      yield* this.rest();
      if (this.part > part || this.offset > before) continue;
      if (!next) return;
      this.at = next;
      this.part = this.offset = 0;
    }
  }

  private *rest(): Generator<Fields> {
    const file = this.file();
    let data = bytesOf(file, this.offset);
    const full = this.file() !== this.at.file;
    if (full && file === this.at.file) data = bytesOf(this.file(), this.offset); // it became full meanwhile
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
    if (full && !whole) [this.part, this.offset] = [this.part + 1, 0];
  }

  private file(): string {
    const full = this.at.file.replace(/\.jsonl$/, `.part${this.part + 1}.jsonl`);
    return this.at.file && fs.existsSync(full) ? full : this.at.file;
  }

  /** The logs of later sessions, the next one first. */
  private later(): { number: number; file: string }[] {
    const runs = path.join(homeOf(this.task), "runs");
    const found = entriesOf(runs).flatMap((run) =>
      entriesOf(path.join(runs, run.name, "events")).flatMap(({ name }) => {
        if (!/^\d+\.jsonl$/.test(name)) return []; // a full part of a long log
        const number = parseInt(run.name) * 1e6 + parseInt(name);
        return [{ number, file: path.join(runs, run.name, "events", name) }];
      }),
    );
    return found.filter(({ number }) => number > this.at.number).sort((one, two) => one.number - two.number);
  }
}

export function bytesOf(file: string, offset: number): Buffer {
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
export function parsed(text: string): any {
  return JSON.parse(text, (_key, value) => (typeof value === "string" ? value.replace(CONTROL, "") : value));
}
