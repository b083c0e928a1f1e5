/** Keeping something as a file. The key of the caller is in a header of the request, never in an address. */

/** Let the browser store a file. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
