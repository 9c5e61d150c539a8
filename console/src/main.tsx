import { render } from "preact";
import "./style.css";
import { Page } from "./ui/app";

render(<Page />, document.getElementById("app")!);
