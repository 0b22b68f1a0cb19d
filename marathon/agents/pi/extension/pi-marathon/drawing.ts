/** Draws an entry of the transcript with pi's own components. Entries are never sent to a model. */
import { randomUUID } from "node:crypto";
import type { Fields } from "../marathon-loop.ts";

export type Shown = { kind: "said" | "thought" | "tool" | "line" | "border" | "warning"; text: string } & Fields;
export type Show = (shown: Shown) => void;

/** pi's own components. They are imported by name, because not every pi has each of them. */
export let parts: Fields = {};

export async function loadParts(): Promise<void> {
  const load = async (name: string) => (await import(name)) as Fields;
  try {
    parts = { ...(await load("@earendil-works/pi-tui")), ...(await load("@earendil-works/pi-coding-agent")) };
  } catch {
    // Then there is the widget, and `pi-marathon attach --plain`.
  }
}

/**
 * The blocks of this process, by id, as they are now. What an entry holds is fixed, and a block grows. So it has two
 * entries: an empty one where it begins, which draws the block from here, and a whole one at its end, which is drawn
 * only by a pi that reads the session from its file.
 */
const kept = globalThis as unknown as { piMarathonBlocks?: Map<string, Shown> }; // survives /reload
const blocks = (kept.piMarathonBlocks ??= new Map<string, Shown>());

/** Show a block that grows. Returns its id. */
export function begin(shown: Shown, show: Show): string {
  const block = randomUUID();
  blocks.set(block, shown);
  show({ kind: shown.kind, text: "", block, begins: true });
  return block;
}

export const grow = (block: string, shown: Shown) => void blocks.set(block, shown);

export function end(block: string | undefined, shown: Shown, show: Show): void {
  if (block) blocks.set(block, shown);
  show({ ...shown, block });
}

/** An entry of the transcript as pi draws its own. */
export function drawn(shown: Shown, expanded: boolean, theme: Fields): any {
  const { block, begins = false } = shown;
  if (block === undefined) return component(shown, expanded, theme);
  if (begins !== blocks.has(block)) return undefined;
  return begins ? growing(block, expanded, theme) : component(shown, expanded, theme);
}

/** pi asks for the lines in every frame. */
function growing(block: string, expanded: boolean, theme: Fields): Fields {
  let [last, made]: [Shown | undefined, Fields | undefined] = [undefined, undefined];
  const now = () => {
    const shown = blocks.get(block);
    if (shown && shown !== last) [last, made] = [shown, component(shown, expanded, theme)];
    return made;
  };
  return { render: (width: number) => now()?.render(width) ?? [], invalidate: () => void (last = undefined) };
}

function component(shown: Shown, expanded: boolean, theme: Fields): Fields | undefined {
  const { AssistantMessageComponent, ToolExecutionComponent, Text, getMarkdownTheme } = parts;
  const { kind, text } = shown;
  if (kind === "said" || kind === "thought") {
    if (!AssistantMessageComponent || !getMarkdownTheme) return undefined;
    const content = kind === "said" ? [{ type: "text", text }] : [{ type: "thinking", thinking: text }];
    const message = { role: "assistant", content, stopReason: "stop" };
    return withoutSpace(new AssistantMessageComponent(message, false, getMarkdownTheme()));
  }
  if (kind === "tool" && ToolExecutionComponent) {
    const { id, name, given, failed, cwd, runs, diff } = shown;
    const maker = /^[a-z]+$/.test(name) ? `create${name[0].toUpperCase()}${name.slice(1)}ToolDefinition` : "";
    const ui = { requestRender: () => {} }; // the widget is drawn every second
    const tool = new ToolExecutionComponent(name, id, given, {}, parts[maker]?.(cwd), ui, cwd);
    const details = diff ? { diff } : undefined;
    if (text || !runs) tool.updateResult({ content: [{ type: "text", text }], isError: failed, details }, runs);
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
