import { render } from "preact";
import "./style/base.css";
import "./style/chat.css";
import { App } from "./view/app";

const root = document.getElementById("app");
if (root) render(<App />, root);
