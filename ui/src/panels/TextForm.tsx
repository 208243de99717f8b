// The text to run, with examples, and what is going on with it: not run yet, running, or rejected.

import { useEffect, useState } from "preact/hooks";
import type { ServedSource, ServerInfo, TextRequest } from "../data/server";
import { printable } from "../drawing/format";
import type { Failure } from "../ServerApp";

interface Properties {
  server: ServerInfo;
  request: TextRequest;
  source: ServedSource | null;
  busy: boolean;
  failure: Failure | null;
  unsent: boolean; // whether the maps on the page are of another text or model
  onRequest: (request: TextRequest) => void;
  onRun: (changed?: Partial<TextRequest>) => void;
  onCancel: () => void;
  onKind: (kind: string) => void;
}

export function TextForm({ server, request, source, busy, failure, unsent, onRequest, onRun, onCancel, onKind }: Properties) {
  const [paired, setPaired] = useState(request.pair !== null);
  const seconds = useSeconds(busy);
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onRun();
    }
  };
  const choose = (index: number) => {
    const { text, pair } = server.examples[index];
    setPaired(pair !== null);
    onRun({ text, pair });
  };
  return (
    <form class="text-form" aria-label="text to run" onKeyDown={onKey} onSubmit={(event) => { event.preventDefault(); onRun(); }}>
      {server.image ? <p class="state">image: <b><bdi>{printable(server.image)}</bdi></b></p> : <>
      <label class="text"><span class="visually-hidden">text</span><textarea rows={1} maxLength={server.most_characters} value={request.text} placeholder="A text" onInput={(event) => onRequest({ ...request, text: event.currentTarget.value })} /></label>
      {paired
        ? <label class="text"><span class="visually-hidden">second text</span><textarea rows={1} maxLength={server.most_characters} value={request.pair ?? ""} placeholder="A second text (optional)" onInput={(event) => onRequest({ ...request, pair: event.currentTarget.value || null })} /></label>
        : <button type="button" onClick={() => setPaired(true)}>+ second text</button>}
      </>}
      <label>model <select value={request.model} onChange={(event) => onRequest({ ...request, model: event.currentTarget.value })}>{server.models.map((name) => <option value={name}>{name}</option>)}</select></label>
      {source && source.summary.kinds.length > 1 && (
        <label>attention type <select value={source.summary.kind} disabled={busy} onChange={(event) => onKind(event.currentTarget.value)}>{source.summary.kinds.map((name) => <option value={name}>{name}</option>)}</select></label>
      )}
      <button type="submit" class="primary" disabled={busy} title="Ctrl+Enter">Run</button>
      {!server.image && <label><span class="visually-hidden">examples</span>
        <select value="" disabled={busy} onChange={(event) => { choose(Number(event.currentTarget.value)); event.currentTarget.value = ""; }}>
          <option value="" disabled>Examples</option>
          {server.examples.map(({ title }, index) => <option value={index}>{title}</option>)}
        </select>
      </label>}
      {busy && <p class="state" role="status">Running {request.model}{seconds > 1 && `, ${seconds} s`} … <button type="button" onClick={onCancel}>Cancel</button></p>}
      {!busy && unsent && !failure && <p class="state" role="status">Not run yet: the maps below are of the text before. Press Ctrl+Enter.</p>}
      {failure && (
        <p role="alert" class="alert">{failure.message} {failure.offer === "truncate" && <button type="button" onClick={() => onRun({ truncate: true })}>Cut the text at the limit</button>}
          {source && unsent && " The maps below are of the text before."}
        </p>
      )}
    </form>
  );
}

/** How long something has been going on. */
function useSeconds(active: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    setSeconds(0);
    if (!active) return;
    const timer = setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, [active]);
  return seconds;
}
