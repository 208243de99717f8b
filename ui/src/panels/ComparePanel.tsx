// Two heads, two texts or two models side by side, with the difference of their maps.

import { useState } from "preact/hooks";
import { openText, ServedSource, serverInfo } from "../data/server";
import type { Summary } from "../data/summary";
import { printable } from "../drawing/format";
import { AGAINST, type View } from "../view";
import { ComparedMaps, otherHead } from "./ComparedMaps";
import type { SectionProperties } from "./Sections";

const NAMES: Record<View["against"], string> = { head: "another head", text: "another text", model: "another model" };

export function ComparePanel(properties: SectionProperties) {
  const { source, view, onChange } = properties;
  const { summary } = source;
  const served = source instanceof ServedSource;
  const models = (serverInfo()?.models ?? []).filter((name) => name !== summary.model);
  const choices = AGAINST.filter((choice) => choice === "head" || (served && !summary.image && (choice === "text" || models.length > 0)));
  const against = choices.includes(view.against) ? view.against : "head";
  const [opened, setOpened] = useState<{ of: string; source: ServedSource } | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const model = models.includes(view.other) ? view.other : models[0];
  const of = against === "text" ? view.other : against === "model" ? model : "";
  const open = async () => {
    setBusy(true);
    setFailed(null);
    try {
      const request = against === "text" ? { text: view.other, pair: null, model: summary.model } : { text: summary.text ?? "", pair: summary.pair, model };
      setOpened({ of: `${against} ${of}`, source: await openText(request) });
    } catch (error) {
      setFailed((error as Error).message);
    }
    setBusy(false);
  };
  const other = against === "head" ? source : opened?.of === `${against} ${of}` ? opened.source : null;
  return (
    <section class="compare" aria-label="compare">
      <div class="choices" role="radiogroup" aria-label="compare with">
        compare with{" "}
        {choices.map((choice) => (
          <label><input type="radio" name="against" checked={against === choice} onChange={() => onChange({ against: choice, other: "" })} /> {NAMES[choice]}</label>
        ))}
      </div>
      {against === "text" && (
        <label class="other-text">other text <textarea rows={2} value={view.other} placeholder={printable(summary.text ?? "")} onInput={(event) => onChange({ other: event.currentTarget.value })} /></label>
      )}
      {against === "model" && (
        <label>other model <select value={model} onChange={(event) => onChange({ other: event.currentTarget.value })}>{models.map((name) => <option value={name}>{name}</option>)}</select></label>
      )}
      {against !== "head" && !other && <button type="button" disabled={busy || (against === "text" && !view.other.trim())} onClick={open}>{busy ? "Running the model …" : "Run and compare"}</button>}
      {failed && <p role="alert" class="alert">{failed}</p>}
      {other && <OtherHead summary={other.summary} view={view} onChange={onChange} />}
      {other && <ComparedMaps key={other === source ? "" : other.summary.text + other.summary.model} {...properties} other={other} named={against} />}
    </section>
  );
}

/** Which head to compare with. */
function OtherHead({ summary, view, onChange }: { summary: Summary; view: View; onChange: SectionProperties["onChange"] }) {
  const [layer, head] = otherHead(summary, view);
  return (
    <p class="choices">
      <label>layer <select value={String(layer)} onChange={(event) => onChange({ otherLayer: Number(event.currentTarget.value) })}>{summary.layers.map((number) => <option value={String(number)}>{number}</option>)}</select></label>
      <label>head <select value={String(head)} onChange={(event) => onChange({ otherHead: Number(event.currentTarget.value) })}>{Array.from({ length: summary.heads }, (_, number) => <option value={String(number)}>{number}</option>)}</select></label>
    </p>
  );
}
