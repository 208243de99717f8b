// What the page is for, how to read it, what its words mean, and its keys.

import { useRef, useState } from "preact/hooks";
import type { Summary } from "../data/summary";
import { KEYS } from "../keys";
import { Tour } from "./Tour";

const DOCUMENTATION = "https://identiformer.github.io/identiformer";
const PAGES = [["reading", "the three tests"], ["ambiguity", "certified bounds and alternatives"], ["explorer", "this page"], ["glossary", "all terms"]];

/** A part of the page, what it is called and what it shows. */
export const STEPS: [selector: string, title: string, text: string][] = [
  [".band", "The band", "says how much of this text's attention passes the tests, and how many heads are of which category. Click a head to see it."],
  [".flow", "The text", "shows one row: where the framed token attends. Solid color is certified: all attention with the same output has that weight. A hollow frame could be zero. Dots: not certified yet."],
  [".row-box", "The table", "has the numbers: weight, certified interval, contribution to what the head writes, and the self-contribution of the key's vector."],
  [".answer", "An alternative", "(◇) is another row with the same output. The model was run with it: the sentence says how much its output changed."],
];

export function Help({ summary }: { summary: Summary }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [step, setStep] = useState<number | null>(null);
  return (
    <>
      <button type="button" onClick={() => dialog.current!.showModal()}>Help</button>
      <dialog ref={dialog} class="help" aria-labelledby="help-title">
        <form method="dialog"><button>Close</button></form>
        <h2 id="help-title">What may an attention map be taken to mean?</h2>
        <p>
          A large weight invites the statement “this token attends to that one”. Three tests show what it may mean. Is the weight certified: does all attention
          with the same output have it? Does it contribute to what the head writes? Is what it contributes attributed to that token, or to
          others? What passes all three is readable.
        </p>
        <p><button type="button" onClick={() => { dialog.current!.close(); setStep(0); }}>Show me around</button></p>
        <ol>{STEPS.map(([, title, text]) => <li><b>{title}</b> {text}</li>)}</ol>
        <h2>Terms</h2>
        <Terms terms={summary.terms} />
        <h2>Keys</h2>
        <dl>{KEYS.map(([key, action]) => <><dt><kbd>{key}</kbd></dt><dd>{action}</dd></>)}</dl>
        <p class="note">More, online: {PAGES.map(([page, title], index) => <>{index > 0 && ", "}<a href={`${DOCUMENTATION}/${page}.html`} target="_blank" rel="noreferrer">{title}</a></>)}.</p>
      </dialog>
      {step !== null && <Tour step={step} onStep={setStep} />}
    </>
  );
}

export function Terms({ terms }: { terms: Record<string, string> }) {
  return <dl class="terms">{Object.entries(terms).map(([name, meaning]) => <><dt>{name.replaceAll("_", " ")}</dt><dd>{meaning}</dd></>)}</dl>;
}
