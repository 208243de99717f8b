// The page of the local server: a form for text and model, and the view of the text that was run.

import { useEffect, useRef, useState } from "preact/hooks";
import { App, Masthead } from "./App";
import { openText, RejectedError, type ServedSource, type ServerInfo, type TextRequest } from "./data/server";
import { TextForm } from "./panels/TextForm";

/** The text and model in the address, otherwise those that the command was started with. */
function firstRequest(server: ServerInfo): TextRequest {
  if (!location.hash && server.view) history.replaceState(null, "", "#" + new URLSearchParams(Object.entries(server.view).map(([name, value]) => [name, String(value)])));
  const address = new URLSearchParams(location.hash.slice(1));
  const model = address.get("model");
  return {
    text: address.get("text") ?? server.text,
    pair: address.has("text") ? address.get("pair") : server.pair,
    model: model !== null && server.models.includes(model) ? model : server.model,
  };
}

export interface Failure {
  message: string;
  offer: string | null;
}

export function ServerApp({ server }: { server: ServerInfo }) {
  const [request, setRequest] = useState(() => firstRequest(server));
  const [source, setSource] = useState<ServedSource | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [busy, setBusy] = useState(true);
  const running = useRef<AbortController | null>(null);
  const open = async (begin: (signal: AbortSignal) => Promise<ServedSource>) => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    setBusy(true);
    setFailure(null);
    try {
      const opened = await begin(mine.signal);
      if (running.current === mine) setSource(opened);
    } catch (error) {
      if (running.current === mine)
        setFailure(mine.signal.aborted ? { message: "Canceled: the maps below are still those of the text before.", offer: null }
          : { message: (error as Error).message, offer: error instanceof RejectedError ? error.offer : null });
    }
    if (running.current === mine) setBusy(false);
  };
  const run = (changed: Partial<TextRequest> = {}) => {
    const wanted = { ...request, ...changed };
    setRequest({ ...wanted, truncate: undefined });
    open((signal) => openText(wanted, source?.summary.id, signal));
  };
  useEffect(() => run(), []);
  const shown = source?.summary;
  const unsent = shown !== undefined && (request.text !== shown.text || (request.pair ?? null) !== shown.pair || request.model !== shown.model);
  const form = (
    <TextForm
      server={server} request={request} source={source} busy={busy} failure={failure} unsent={unsent}
      onRequest={setRequest} onRun={run} onCancel={() => running.current?.abort()} onKind={(kind) => open(() => source!.openKind(kind))}
    />
  );
  if (!source) return <div class="identiformer"><Masthead />{form}</div>;
  const { text, pair, model } = source.summary;
  const address = { text: text ?? "", model, ...(pair === null ? {} : { pair }) };
  const longest = server.examples.reduce((one, other) => (other.text.length > one.text.length ? other : one));
  const stale = busy || (failure !== null && unsent);
  return <App key={source.summary.id} source={source} form={form} address={address} stale={stale} onLonger={server.image ? undefined : () => run({ text: longest.text, pair: longest.pair })} />;
}
