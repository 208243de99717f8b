import { render } from "preact";
import { App } from "./App";
import { CorpusApp, embeddedCorpus } from "./CorpusApp";
import { followHeight } from "./notebook";
import { aboutServer } from "./server";
import { ServerApp } from "./ServerApp";
import { embedded } from "./source";
import "./style.css";

const root = document.getElementById("identiformer")!;
const [source, corpus, about] = [embedded(), embeddedCorpus(), aboutServer()];
root.textContent = "";
if (source) render(<App source={source} />, root);
else if (corpus) render(<CorpusApp summary={corpus} />, root);
else if (about) render(<ServerApp about={about} />, root);
followHeight();
