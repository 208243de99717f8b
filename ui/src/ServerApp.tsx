// The page of the local server: a text and a model to choose, and the view of what came of them.

import { useEffect, useState } from "preact/hooks";
import { App } from "./App";
import { type About, type Asked, openText, type ServedSource } from "./server";

/** What the address asks for, else what the command was given. */
function firstAsked(about: About): Asked {
  const given = new URLSearchParams(location.hash.slice(1));
  const model = given.get("model");
  return {
    text: given.get("text") ?? about.text,
    pair: given.has("text") ? given.get("pair") : about.pair,
    model: model !== null && about.models.includes(model) ? model : about.model,
  };
}

export function ServerApp({ about }: { about: About }) {
  const [asked, setAsked] = useState(() => firstAsked(about));
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
  const look = () => open(() => openText(asked, source?.summary.id));
  useEffect(() => void look(), []);
  const form = (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        look();
      }}
    >
      <label class="text">text <textarea rows={3} maxLength={about.most_characters} value={asked.text} onInput={(event) => setAsked({ ...asked, text: event.currentTarget.value })} /></label>
      <label class="text">second text, if it is a pair <textarea rows={3} maxLength={about.most_characters} value={asked.pair ?? ""} onInput={(event) => setAsked({ ...asked, pair: event.currentTarget.value || null })} /></label>
      <label>model <select value={asked.model} onChange={(event) => setAsked({ ...asked, model: event.currentTarget.value })}>{about.models.map((name) => <option value={name}>{name}</option>)}</select></label>
      {source && source.summary.kinds.length > 1 && (
        <label>attention of the <select value={source.summary.kind} disabled={busy} onChange={(event) => { const kind = event.currentTarget.value; open(() => source.openKind(kind)); }}>{source.summary.kinds.map((name) => <option value={name}>{name}</option>)}</select></label>
      )}
      <button type="submit" class="primary" disabled={busy}>{busy ? "running the model …" : "Look"}</button>
      {failed && <p role="alert" class="alert">{failed}</p>}
    </form>
  );
  if (!source)
    return <div class="identiformer"><header class="masthead"><p><b>identiformer</b></p></header>{form}{busy && <p class="note waiting" role="status">running the model …</p>}</div>;
  const { text, pair, model } = source.summary;
  const place = { text: text ?? "", model, ...(pair === null ? {} : { pair }) };
  return <App key={source.summary.id} source={source} form={form} place={place} />;
}
