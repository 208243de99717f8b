// A job as a component sees it: started by a button, followed, canceled when it is no longer wanted.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Running } from "./server";

export interface JobState {
  progress: number | null; // null: nothing runs
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
      const own = begin((share) => running.current === own && setProgress(share));
      running.current = own;
      own.result.then(
        (result) => {
          if (running.current !== own) return;
          running.current = null;
          setProgress(null);
          if (result !== null) then(result);
        },
        (error: Error) => {
          if (running.current !== own) return;
          running.current = null;
          setProgress(null);
          setFailed(error.message);
        },
      );
    },
  };
}
