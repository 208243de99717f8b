// The page of one text: keeps the view in the address, and the theme.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ServedSource } from "./data/server";
import type { Source } from "./data/source";
import { ON_REQUEST } from "./data/useHeadNumbers";
import { printable } from "./drawing/format";
import { Explorer } from "./Explorer";
import { FRAMED, notifyNotebook } from "./notebook";
import { type Change, FIRST, readHash, type View, windowFor, writeHash } from "./view";

const KEYS: [string, string][] = [
  ["Tab, arrows", "move through heads and tokens; Enter selects a token's row"],
  ["j k", "next and previous row"], ["[ ]", "previous and next head"], ["{ }", "previous and next layer"], ["Esc", "clear the selected row"],
  ["w", "whole words"], ["s", "special tokens"], ["m", "one map or all"], ["/", "find a token"],
];

interface Properties {
  source: Source;
  form?: ComponentChildren; // to run another text
  address?: Record<string, string>; // what the address holds in addition to the view
}

export function App({ source, form, address }: Properties) {
  const [view, setView] = useView(source, address);
  const dark = useDark(view.theme);
  const { summary } = source;
  const change: Change = useCallback(
    (part) =>
      setView((before) => {
        const after = { ...before, ...(typeof part === "function" ? part(before) : part) };
        return after.query === before.query ? after : inView(after, source);
      }),
    [setView],
  );
  return (
    <div class="identiformer" data-theme={dark ? "dark" : "light"}>
      <header class="masthead">
        <p><b>identiformer</b> <span><bdi>{printable(summary.model)}</bdi>, {summary.queries.texts.length} tokens{summary.kind === "self" ? "" : `, ${summary.kind} attention`}</span></p>
        <label>
          theme{" "}
          <select value={view.theme} onChange={(event) => change({ theme: event.currentTarget.value as View["theme"] })}>
            <option value="auto">system</option><option value="light">light</option><option value="dark">dark</option>
          </select>
        </label>
        <details class="keys">
          <summary>Keyboard</summary>
          <dl>{KEYS.map(([key, action]) => <><dt><kbd>{key}</kbd></dt><dd>{action}</dd></>)}</dl>
        </details>
      </header>
      {form}
      <Explorer source={source} view={view} dark={dark} onChange={change} />
    </div>
  );
}

/** The view with its selected row among the rows in view. */
function inView(view: View, source: Source): View {
  const { window, queries } = source.summary;
  if (window === null) return { ...view, from: 0 };
  const most = Math.max(0, queries.texts.length - window);
  const from = Number.isInteger(view.from) ? Math.max(0, Math.min(view.from, most)) : 0;
  return { ...view, from: view.query === null ? from : windowFor(view.query, from, window, queries.texts.length) };
}

/** The view with everything that this text does not have replaced. */
function valid(view: View, source: Source, otherwise: View): View {
  const { layers, heads, queries, numbers } = source.summary;
  const layer = view.layer === 0 || layers.includes(view.layer) ? view.layer : otherwise.layer;
  const head = Number.isInteger(view.head) && view.head >= -1 && view.head < heads ? view.head : otherwise.head;
  const query = view.query !== null && Number.isInteger(view.query) && view.query >= 0 && view.query < queries.texts.length ? view.query : null;
  const gamma = view.gamma >= 0.15 && view.gamma <= 1 ? view.gamma : otherwise.gamma;
  const known = numbers[view.color] || (source instanceof ServedSource && ON_REQUEST.includes(view.color));
  return inView({ ...view, layer, head: layer === 0 ? -1 : head, query, gamma, color: known ? view.color : "nullity" }, source);
}

function useView(source: Source, address?: Record<string, string>): [View, (change: (before: View) => View) => void] {
  const first = { ...FIRST, ...source.summary.first };
  const [view, setView] = useState(() => valid(readHash(location.hash, first), source, first));
  useEffect(() => {
    const onHash = () => {
      setView((before) => valid(readHash(location.hash, before), source, before));
      document.getElementById("identiformer")?.scrollIntoView();
    };
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, [source]);
  useEffect(() => {
    // Replaced, not pushed, so that the back button leaves the page; delayed, because a slider changes the view many times.
    const later = setTimeout(() => (FRAMED ? notifyNotebook({ view }) : history.replaceState(null, "", writeHash(view, address))), 150);
    return () => clearTimeout(later);
  }, [view]);
  return [view, setView];
}

function useDark(theme: View["theme"]): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [system, setSystem] = useState(query.matches);
  useEffect(() => {
    const onChange = () => setSystem(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  const dark = theme === "auto" ? system : theme === "dark";
  useEffect(() => void (document.documentElement.dataset.theme = dark ? "dark" : "light"), [dark]);
  return dark;
}
