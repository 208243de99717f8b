// Builds one page that needs nothing else: script and style stand in it, and its policy allows that script alone.

import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";
import { hashSources } from "./sources.ts";

const HERE = import.meta.dirname;
const TARGET = "../src/identiformer/page";

function onePage(): Plugin {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_, bundle) {
      const of = (ending: string) => Object.values(bundle).filter((file) => file.fileName.endsWith(ending));
      const script = of(".js").map((file) => (file.type === "chunk" ? file.code : "")).join("").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const style = of(".css").map((file) => (file.type === "asset" ? String(file.source) : "")).join("");
      const allowed = createHash("sha256").update(script).digest("base64");
      const policy =
        `default-src 'none'; script-src 'sha256-${allowed}'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; ` +
        "base-uri 'none'; form-action 'none'";
      const page = of(".html")[0];
      if (page.type !== "asset") throw new Error("no page was built");
      const body = String(page.source)
        .replace(/<script[^>]*><\/script>\s*/g, "")
        .replace(/<link rel="stylesheet"[^>]*>\s*/g, "")
        .replace("</head>", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">\n<meta name="sources" content="${hashSources(HERE)}">\n<style>${style}</style>\n</head>`)
        .replace("<!--script-->", () => `<script>${script}</script>`); // a classic script, which runs before the rest of the page is read
      for (const name of Object.keys(bundle)) delete bundle[name];
      this.emitFile({ type: "asset", fileName: "page.html", source: body });
    },
  };
}

export default defineConfig({
  plugins: [onePage()],
  build: {
    outDir: TARGET, emptyOutDir: false, assetsInlineLimit: Infinity, modulePreload: false, target: "es2022",
    rolldownOptions: { output: { format: "iife" } },
  },
});
