import { render } from "preact";
import "./style/base.css";
import "./style/chat.css";
import { App } from "./view/app";
import { keepFocus } from "./view/focus";

// The address of the icon is relative to the place that was loaded, and the page goes to others.
for (const icon of document.querySelectorAll<HTMLLinkElement>("link[rel=icon]")) icon.href = new URL(icon.href).href;
render(<App />, document.getElementById("app")!);
keepFocus();
