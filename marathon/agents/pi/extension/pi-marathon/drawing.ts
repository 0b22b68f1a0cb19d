/** Draws an entry of the transcript with pi's own components. Entries are never sent to a model. */
import type { Fields } from "../marathon-loop.ts";

export type Shown = { kind: "said" | "thought" | "tool" | "line" | "border" | "warning"; text: string } & Fields;
export type Show = (shown: Shown) => void;

/** pi's own components. They are imported when they are needed, because not every pi has each of them. */
export let parts: Fields = {};

export async function loadParts(): Promise<void> {
  const load = async (name: string) => (await import(name)) as Fields;
  try {
    parts = { ...(await load("@earendil-works/pi-tui")), ...(await load("@earendil-works/pi-coding-agent")) };
  } catch {
    // Then there is the widget, and `pi-marathon logs`.
  }
}

/** An entry of the transcript as pi draws its own. */
export function drawn(shown: Shown, expanded: boolean, theme: Fields): any {
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
