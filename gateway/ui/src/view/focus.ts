/** Moves the focus when its element is removed or disabled, or comes to lie below something. */

/** The element with the focus and all around it, from there outwards; empty: the reader has clicked on the page. */
let path: Element[] = [];
/** The parts that may lie above the conversation. */
const ABOVE = ".details, .sidebar";
/** The element outside of them that had the focus last. */
let origin: Element | null = null;

/** Put the focus on the first element in another that takes it, or else on that itself; return whether one did. */
function enter(at: Element | null): boolean {
  const all = ":is(a[href], button, input, select, textarea, summary):not([tabindex='-1'])";
  return [...(at?.querySelectorAll(all) ?? []), at].some(take);
}

function lost(): boolean {
  const [one] = path;
  if (!one || (one.checkVisibility({ visibilityProperty: true }) && !one.matches(":disabled, [inert] *"))) return false;
  return [one, document.body].includes(document.activeElement!);
}

/**
 * Go to what is left around it, up to the end of a part of the page; from what lay above the conversation then to where the
 * reader came from; then to the message box, or to what lies above.
 */
function settle(): void {
  // The browser lets go of what cannot be seen later than this.
  (path[0] as HTMLElement).blur();
  for (const one of path.slice(1)) {
    if (one.matches("main, .shell, #app") || one.closest(".foot")) break;
    if (!one.isConnected || one.closest("[inert]")) continue;
    const at = one.closest(".log") ?? one;
    if (at.matches("[tabindex]") ? take(at) : enter(at)) return;
  }
  if (path.some((one) => one.matches(ABOVE)) && take(origin)) return;
  // On a touch screen the box brings up a keyboard.
  const box = matchMedia("(hover: hover)").matches ? "#message" : "main";
  if (![box, "main"].some((one) => take(document.querySelector(one)))) [...document.querySelectorAll(ABOVE)].some(enter);
}

/** Put the focus on an element; return whether it took it. */
function take(one: Element | null): boolean {
  (one as HTMLElement | null)?.focus({ preventScroll: true });
  return !!one && document.activeElement === one;
}

function note(): void {
  path = [];
  for (let one = document.activeElement; one && one !== document.body; one = one.parentElement) path.push(one);
  if (path.length && !path.some((one) => one.matches(ABOVE))) [origin = null] = path;
}

addEventListener("focusin", note);
addEventListener("click", note, true);
addEventListener("pointerdown", () => (path = []), true);
const changes = { subtree: true, childList: true, attributeFilter: ["disabled", "inert", "data-drawer"] };
new MutationObserver(() => lost() && settle()).observe(document.body, changes);

export {};
