import { render } from "preact";
import { App } from "./App";
import { CorpusApp } from "./CorpusApp";
import { serverInfo } from "./data/server";
import { embeddedJson, embeddedSource } from "./data/source";
import type { CorpusSummary } from "./data/summary";
import { followHeight } from "./notebook";
import { ServerApp } from "./ServerApp";
import "./style.css";
import "./panels.css";

const root = document.getElementById("identiformer")!;
const [source, corpus, server] = [embeddedSource(), embeddedJson<CorpusSummary>("corpus"), serverInfo()];
root.textContent = "";
if (source) render(<App source={source} />, root);
else if (corpus) render(<CorpusApp summary={corpus} />, root);
else if (server) render(<ServerApp server={server} />, root);
followHeight();
