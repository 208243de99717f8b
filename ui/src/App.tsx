// The page of one text: keeps the view in the address, and the theme.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import type { Source } from "./data/source";
import type { Summary } from "./data/summary";
import { printable } from "./drawing/format";
import { Explorer } from "./Explorer";
import { Help } from "./panels/Help";
import { FRAMED, notifyNotebook } from "./notebook";
import { type Change, FIRST, readHash, type View, windowFor, writeHash } from "./view";

interface Properties {
  source: Source;
  form?: ComponentChildren; // to run another text
  address?: Record<string, string>; // what the address holds in addition to the view
  stale?: boolean; // whether another text or model has been requested since
  onLonger?: () => void; // runs a longer text
}

export function App({ source, form, address, stale = false, onLonger }: Properties) {
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
      <Masthead summary={summary}>
        <label>
          <span class="visually-hidden">theme</span>{" "}
          <select value={view.theme} onChange={(event) => change({ theme: event.currentTarget.value as View["theme"] })}>
            <option value="auto">system theme</option><option value="light">light</option><option value="dark">dark</option>
          </select>
        </label>
      </Masthead>
      {form}
      <div class={stale ? "stale" : ""}><Explorer source={source} view={view} dark={dark} onChange={change} onLonger={onLonger} /></div>
    </div>
  );
}

/** The name of the page and its question. */
export function Masthead({ summary, children }: { summary?: Summary; children?: ComponentChildren }) {
  return (
    <header class="masthead">
      <b>identiformer</b>
      <h1>What may this attention map be taken to mean?</h1>
      {summary && <p class="about"><bdi>{printable(summary.model)}</bdi>, {summary.queries.texts.length} tokens{summary.kind === "self" ? "" : `, ${summary.kind} attention`}</p>}
      {summary && <Help summary={summary} />}
      {children}
      <p class="purpose">A weight is called readable if it is certified, contributes to what the head writes, and is attributed to the token it points to.</p>
    </header>
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
  const known = numbers[view.color] || source.summary.reading;
  return inView({ ...view, layer, head: layer === 0 ? -1 : head, query, gamma, color: known ? view.color : "nullity" }, source);
}

function useView(source: Source, address?: Record<string, string>): [View, (change: (before: View) => View) => void] {
  const first = { ...FIRST, ...source.summary.first, ...source.summary.view };
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
