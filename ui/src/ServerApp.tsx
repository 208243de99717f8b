// The page of the local server: a form for text and model, and the view of the text that was run.

import { useEffect, useState } from "preact/hooks";
import { App } from "./App";
import { openText, type ServedSource, type ServerInfo, type TextRequest } from "./data/server";

/** The text and model in the address, otherwise those that the command was started with. */
function firstRequest(server: ServerInfo): TextRequest {
  const address = new URLSearchParams(location.hash.slice(1));
  const model = address.get("model");
  return {
    text: address.get("text") ?? server.text,
    pair: address.has("text") ? address.get("pair") : server.pair,
    model: model !== null && server.models.includes(model) ? model : server.model,
  };
}

export function ServerApp({ server }: { server: ServerInfo }) {
  const [request, setRequest] = useState(() => firstRequest(server));
  const [source, setSource] = useState<ServedSource | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const [busy, setBusy] = useState(true);
  const open = async (begin: () => Promise<ServedSource>) => {
    setBusy(true);
    setFailed(null);
    try {
      setSource(await begin());
    } catch (error) {
      setFailed((error as Error).message);
    }
    setBusy(false);
  };
  const run = () => open(() => openText(request, source?.summary.id));
  useEffect(() => void run(), []);
  const form = (
    <form
      class="text-form"
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      <label class="text">text <textarea rows={3} maxLength={server.most_characters} value={request.text} onInput={(event) => setRequest({ ...request, text: event.currentTarget.value })} /></label>
      <label class="text">second text (optional) <textarea rows={3} maxLength={server.most_characters} value={request.pair ?? ""} onInput={(event) => setRequest({ ...request, pair: event.currentTarget.value || null })} /></label>
      <label>model <select value={request.model} onChange={(event) => setRequest({ ...request, model: event.currentTarget.value })}>{server.models.map((name) => <option value={name}>{name}</option>)}</select></label>
      {source && source.summary.kinds.length > 1 && (
        <label>attention type <select value={source.summary.kind} disabled={busy} onChange={(event) => { const kind = event.currentTarget.value; open(() => source.openKind(kind)); }}>{source.summary.kinds.map((name) => <option value={name}>{name}</option>)}</select></label>
      )}
      <button type="submit" class="primary" disabled={busy}>{busy ? "Running the model …" : "Run"}</button>
      {failed && <p role="alert" class="alert">{failed}</p>}
    </form>
  );
  if (!source)
    return <div class="identiformer"><header class="masthead"><p><b>identiformer</b></p></header>{form}{busy && <p class="note waiting" role="status">Running the model …</p>}</div>;
  const { text, pair, model } = source.summary;
  const address = { text: text ?? "", model, ...(pair === null ? {} : { pair }) };
  return <App key={source.summary.id} source={source} form={form} address={address} />;
}
