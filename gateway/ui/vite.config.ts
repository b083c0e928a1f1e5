import { defineConfig } from "vite";
import { compressed, licences } from "./plugins.ts";

// The gateway behind the sources as they are edited (`make ui-dev`). The Host of the browser is passed on, since a
// gateway without keys takes calls of its own origin only.
const gateway = { target: process.env["TASKPLANE_URL"] ?? "http://127.0.0.1:8080", changeOrigin: false };

// Relative addresses, so that the page works below any path of a proxy. The gateway serves what is built here.
export default defineConfig({
  base: "./",
  plugins: [licences(), compressed()],
  build: {
    outDir: "../taskplane/gateway/dist",
    emptyOutDir: true,
    target: "es2022",
    // Those that know `light-dark()`: what stands in for it elsewhere follows the system only, not the chosen theme.
    cssTarget: ["chrome123", "edge123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Everything that is needed at once in one file: it compresses better, and takes one request.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "page", test: /src\/main\.tsx$/ }] } } },
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      "^/(api|agents|\\.well-known)/": gateway,
      "^/$": { ...gateway, bypass: (request) => (request.method === "POST" ? undefined : request.url) },
    },
  },
});
