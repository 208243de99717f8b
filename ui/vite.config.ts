// Builds one page that needs no other file: a Jinja template with the script inside (which adds its style), whose policy allows only that script.

import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";
import { hashSources } from "./sources.ts";

const HERE = import.meta.dirname;
const TARGET = "../src/identiformer/page";

/** Text that Jinja leaves as it is. */
const raw = (text: string) => `{% raw %}${text}{% endraw %}`;

function onePage(): Plugin {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_, bundle) {
      const of = (ending: string) => Object.values(bundle).filter((file) => file.fileName.endsWith(ending));
      const script = of(".js").map((file) => (file.type === "chunk" ? file.code : "")).join("").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--").trim();
      const allowed = createHash("sha256").update(script).digest("base64");
      const policy =
        `default-src 'none'; script-src 'sha256-${allowed}'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; ` +
        "base-uri 'none'; form-action 'none'";
      const page = of(".html")[0];
      if (page.type !== "asset") throw new Error("no page was built");
      const body = String(page.source)
        .replace(/<script[^>]*><\/script>\s*/g, "")
        .replace("</head>", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">\n<meta name="sources" content="${hashSources(HERE)}">\n</head>`)
        .replace("<!--script-->", () => `<script>${raw(script)}</script>`); // a classic script, which runs before the rest of the page is parsed
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
