// The steps of a generation: a slider over the tokens that the model wrote, and what each drew on.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import type { AnswerSteps, StepSources } from "../data/summary";
import { useJob } from "../data/useJob";
import { formatPercent, printable } from "../drawing/format";
import type { Scene } from "../drawing/scene";
import { shadeToken } from "../drawing/shading";
import type { Change, View } from "../view";
import { Progress } from "./Progress";

export function StepSlider({ source, answer, view, scene, onChange }: { source: Source; answer: AnswerSteps; view: View; scene: Scene | null; onChange: Change }) {
  const job = useJob();
  const [found, setFound] = useState<StepSources | null>(answer.sources);
  const { steps } = answer;
  const step = Math.max(0, steps.findIndex(({ predicted_at }) => predicted_at === view.query));
  const inAnswer = steps.some(({ predicted_at }) => predicted_at === view.query);
  const { token, position, predicted_at, probability } = steps[step];
  const served = source instanceof ServedSource ? source : null;
  const choose = (number: number) => onChange({ query: steps[number].predicted_at, side: "row" });
  return (
    <section class="steps" aria-label="generation">
      <label>
        step <input type="range" min="0" max={steps.length - 1} step="1" value={step} onInput={(event) => choose(Number(event.currentTarget.value))} />{" "}
        <output>{step + 1} of {steps.length}</output>
      </label>{" "}
      <button type="button" disabled={step === 0} onClick={() => choose(step - 1)} aria-label="previous step">◂</button>{" "}
      <button type="button" disabled={step === steps.length - 1} onClick={() => choose(step + 1)} aria-label="next step">▸</button>{" "}
      <span role="status">
        wrote <b><bdi>{printable(token)}</bdi></b> at {position} with probability {formatPercent(probability)}, from the row of position {predicted_at}
        {!inAnswer && " (move the slider to select that row)"}{answer.interrupted && step === steps.length - 1 ? "; the generation was interrupted" : ""}
      </span>
      {served && !found && job.progress === null && <> <button type="button" onClick={() => job.start((onProgress) => served.answerSources(onProgress), setFound)}>What did it draw on?</button></>}
      <Progress job={job} activity="computing what each token drew on" />
      {found && scene && <Sources found={found} step={step} answer={answer} tokens={source.summary.queries.texts} scene={scene} />}
    </section>
  );
}

/** The tokens before this step, shaded by their share in its attribution; the largest in words. */
function Sources({ found, step, answer, tokens, scene }: { found: StepSources; step: number; answer: AnswerSteps; tokens: string[]; scene: Scene }) {
  const box = useRef<HTMLDivElement>(null);
  const { shares, sources, prompt_share } = found.steps[step];
  const flow = useMemo(() => tokens.map((token, position) => <span class={`token ${position >= answer.start ? "answer" : ""}`} title={answer.spans[position]}><bdi>{printable(token)}</bdi></span>), [tokens]);
  useEffect(() => {
    const limit = Math.max(...shares, 1e-9);
    box.current!.querySelectorAll<HTMLElement>(".token").forEach((token, position) => shadeToken(token, shares[position] ?? 0, limit, 1, scene));
  });
  const words = sources.map(({ token, position, share, category }) => `‘${printable(token)}’ at ${position} (${formatPercent(share)}${category ? `, ${category}` : ""})`);
  return (
    <>
      <p>It drew {formatPercent(prompt_share)} on the prompt: {words.join(", ")}. <span class="note">{found.method.replaceAll("_", " ")} of its {found.output}; the answer is underlined.</span></p>
      <div class="flow sources" ref={box} role="img" aria-label="the text, shaded by what this token drew on">{flow}</div>
    </>
  );
}
