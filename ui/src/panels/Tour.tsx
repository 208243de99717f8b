// A short tour: one part of the page after another, framed and described.

import { useEffect, useRef } from "preact/hooks";
import { STEPS } from "./Help";

export function Tour({ step, onStep }: { step: number; onStep: (step: number | null) => void }) {
  const [selector, title, text] = STEPS[step];
  const next = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const part = document.querySelector<HTMLElement>(selector);
    part?.classList.add("toured");
    part?.scrollIntoView({ block: "nearest" });
    next.current?.focus();
    return () => part?.classList.remove("toured");
  }, [selector]);
  return (
    <div class="tour" role="dialog" aria-label="tour" onKeyDown={(event) => event.key === "Escape" && onStep(null)}>
      <p><b>{title}</b> {text}</p>
      <p>
        <button type="button" ref={next} onClick={() => onStep(step + 1 < STEPS.length ? step + 1 : null)}>{step + 1 < STEPS.length ? "Next" : "Done"}</button>{" "}
        <button type="button" onClick={() => onStep(null)}>End the tour</button> {step + 1} of {STEPS.length}
      </p>
    </div>
  );
}
