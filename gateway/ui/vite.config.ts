import { defineConfig } from "vite";

// Relative addresses, so that the page works below any path of a proxy. The gateway serves what is built here.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../taskplane/gateway/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
