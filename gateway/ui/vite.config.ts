import { defineConfig } from "vite";

// For development: `npm run dev` beside `taskplane dev` shows the page as it is edited, with the calls passed on.
const gateway = process.env["TASKPLANE_URL"] ?? "http://127.0.0.1:8080";
const proxied = { target: gateway, changeOrigin: true, headers: { origin: gateway } };

// Relative addresses, so that the page works below any path of a proxy. The gateway serves what is built here.
export default defineConfig({
  base: "./",
  server: {
    proxy: {
      "/api": proxied,
      "/agents": proxied,
      "/.well-known": proxied,
      // JSON-RPC to the default agent; the page itself is at the same path.
      "^/$": { ...proxied, bypass: (request) => (request.method === "POST" ? null : request.url) },
    },
  },
  build: {
    outDir: "../taskplane/gateway/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
