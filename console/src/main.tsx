import { render } from "preact";
import { finishRedirect } from "./api/oidc";
import "./style.css";
import { Page } from "./ui/app";

const app = document.getElementById("app")!;
if (finishRedirect()) render(<p class="signin">You can close this window. The console shows the result of the sign-in.</p>, app);
else render(<Page />, app);
