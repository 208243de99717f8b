// A job of a component: started by a button, polled, and canceled when the component goes away.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Running } from "./server";

export interface JobState {
  progress: number | null; // null: not running
  failed: string | null;
  start: <Result>(begin: (onProgress: (share: number) => void) => Running<Result>, then: (result: Result) => void) => void;
  cancel: () => void;
}

export function useJob(): JobState {
  const [progress, setProgress] = useState<number | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const running = useRef<Running<unknown> | null>(null);
  const cancel = () => {
    running.current?.cancel();
    running.current = null;
    setProgress(null);
  };
  useEffect(() => cancel, []);
  return {
    progress, failed, cancel,
    start: (begin, then) => {
      running.current?.cancel();
      setFailed(null);
      setProgress(0);
      const job = begin((share) => running.current === job && setProgress(share));
      running.current = job;
      job.result.then(
        (result) => {
          if (running.current !== job) return;
          running.current = null;
          setProgress(null);
          if (result !== null) then(result);
        },
        (error: Error) => {
          if (running.current !== job) return;
          running.current = null;
          setProgress(null);
          setFailed(error.message);
        },
      );
    },
  };
}
