import { render } from "preact";
import { App } from "./App";
import { embedded } from "./source";
import "./style.css";

const root = document.getElementById("identiformer")!;
const source = embedded();
if (source) {
  root.textContent = "";
  render(<App source={source} />, root);
}
