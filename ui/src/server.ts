// The server that opened the page: texts to look at, and jobs that take a while.

import { embeddedText, type Source } from "./source";
import type { Origins } from "./origins";
import type { Certificate, PerHead, Rerun, Summary } from "./summary";

export interface Asked {
  text: string;
  pair: string | null;
  model: string;
}

export interface About extends Asked {
  models: string[];
  most_characters: number;
}

interface Told<Result> {
  job: string;
  state: "waiting" | "running" | "done" | "failed" | "canceled";
  progress: number;
  result: Result | string | null;
}

export interface Running<Result> {
  result: Promise<Result | null>; // null: canceled
  cancel: () => void;
}

export function aboutServer(): About | null {
  const text = embeddedText("identiformer-server");
  return text === null ? null : JSON.parse(text);
}

/** A request; what the server refuses with is the message of the error. */
async function request(path: string, method = "GET", body?: unknown): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("the explorer does not answer; is its command still running?");
  }
  if (!response.ok) throw new Error(await response.text());
  return response;
}

/** before: the text that this page looked at until now. */
export async function openText(asked: Asked, before?: string): Promise<ServedSource> {
  const response = await request("texts", "POST", { ...asked, before });
  return new ServedSource(await response.json());
}

const PAUSE = 150; // ms between two questions after a job

export class ServedSource implements Source {
  private known: Origins | null = null;

  constructor(readonly summary: Summary & { id: string }) {}

  /** Another attention type of the same text, such as the decoder's. */
  async openKind(kind: string): Promise<ServedSource> {
    const response = await request(`texts/${this.summary.id}/kinds/${encodeURIComponent(kind)}`, "POST");
    return new ServedSource(await response.json());
  }

  async origins(): Promise<Origins | null> {
    return this.known;
  }

  async layer(number: number, from: number): Promise<Uint8Array> {
    const rows = this.summary.window === null ? "" : `/rows/${from}`;
    const response = await request(`texts/${this.summary.id}/layers/${number}${rows}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  certify(layer: number, head: number, query: number, onProgress: (share: number) => void): Running<Certificate> {
    return this.run({ kind: "certify", layer, head, query }, onProgress);
  }

  rerun(certificate: Certificate, alternative: string, onProgress: (share: number) => void): Running<Rerun> {
    const { layer, head, query, alternatives } = certificate;
    return this.run({ kind: "rerun", layer, head, query, alternative, row: alternatives[alternative].row }, onProgress);
  }

  certifyHeads(onProgress: (share: number) => void): Running<PerHead> {
    return this.run({ kind: "certify heads" }, onProgress);
  }

  attribute(onProgress: (share: number) => void): Running<Origins> {
    const running = this.run<Origins>({ kind: "attribute" }, onProgress);
    running.result.then((found) => (this.known = found), () => undefined);
    return running;
  }

  private run<Result>(asked: unknown, onProgress: (share: number) => void): Running<Result> {
    let canceled = false;
    let number = "";
    const cancel = () => {
      canceled = true;
      if (number) request(`jobs/${number}`, "DELETE").catch(() => undefined);
    };
    const follow = async () => {
      let told: Told<Result> = await (await request(`texts/${this.summary.id}/jobs`, "POST", asked)).json();
      number = told.job;
      while (told.state === "waiting" || told.state === "running") {
        if (canceled) {
          cancel();
          return null;
        }
        onProgress(told.progress);
        await new Promise((resume) => setTimeout(resume, PAUSE));
        told = await (await request(`jobs/${number}`)).json();
      }
      if (told.state === "failed") throw new Error(String(told.result));
      return told.state === "canceled" ? null : (told.result as Result);
    };
    return { result: follow(), cancel };
  }
}
