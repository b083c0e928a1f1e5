/** Links within the page. */

import type { ComponentProps } from "preact";
import { go } from "../state";

/** A link within the page, which the browser follows only if the reader wants it in another tab; `here`: it is shown. */
export function PageLink({ href, here, ...rest }: Omit<ComponentProps<"a">, "role"> & { href: string; here?: boolean }) {
  const visit = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} aria-current={here ? "page" : undefined} onClick={visit} {...rest} />;
}
